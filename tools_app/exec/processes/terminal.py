"""A pseudo-terminal for a command that needs one.

A program can push keystrokes into a terminal it shares with others. Here the command has the terminal to itself, and the
system call filter denies the push as well.
"""

import fcntl
import os
import struct
import termios

DEFAULT_ROWS, DEFAULT_COLUMNS = 24, 80


def open_terminal() -> tuple[int, int]:
    """Return (our side, non-blocking; the command's side, to be closed after the command has inherited it)."""
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    resize(ours, DEFAULT_ROWS, DEFAULT_COLUMNS)
    return ours, theirs


def resize(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("=HHHH", rows, columns, 0, 0))
