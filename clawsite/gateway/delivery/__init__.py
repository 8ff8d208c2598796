"""Deliver events to connected clients, and what they missed."""
