"""Decide whether a command line runs, needs approval, or is denied. Never runs the line."""
