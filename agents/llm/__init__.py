"""Model calls: messages, events, catalog, prices, retries."""
