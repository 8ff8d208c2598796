"""JSON Schemas adapted to each model provider."""
