"""Sandbox levels: bubblewrap, landlock with seccomp, none."""
