"""The OpenAI-compatible endpoints /v1/chat/completions, /v1/responses and /v1/models."""
