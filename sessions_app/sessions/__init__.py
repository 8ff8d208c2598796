"""Sessions: create, find, share, attach files, fork, export."""
