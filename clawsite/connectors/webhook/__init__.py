"""Webhooks: authenticate deliveries, start runs, post results."""
