"""Read models about runs, operations and usage."""
