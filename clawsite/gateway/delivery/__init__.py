"""Deliver events to connected clients, including those they missed."""
