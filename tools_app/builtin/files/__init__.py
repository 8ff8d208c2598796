"""File tools: read, write, edit, glob, grep, apply_patch."""
