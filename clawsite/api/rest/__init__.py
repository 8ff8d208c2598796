"""The REST API under /api/ and its OpenAPI document."""
