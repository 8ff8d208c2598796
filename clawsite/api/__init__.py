"""The HTTP API: OpenAI-compatible endpoints, REST, tool invocation, metrics."""
