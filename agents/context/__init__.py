"""The model's input: history, attachments, system prompt, compaction."""
