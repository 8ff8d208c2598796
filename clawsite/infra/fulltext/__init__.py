"""Full-text search on SQLite and PostgreSQL with one tokenizer."""
