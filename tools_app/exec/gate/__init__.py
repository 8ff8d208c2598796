"""Decide whether a command line runs, needs approval, or is denied. Pure."""
