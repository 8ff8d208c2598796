"""Configuration from the environment."""
