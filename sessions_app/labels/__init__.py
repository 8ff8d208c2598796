"""Translations of stored reason texts."""
