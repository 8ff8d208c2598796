"""Fetch URLs without reaching private networks."""
