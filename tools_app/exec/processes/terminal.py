"""A terminal for a command that wants one. Nobody but that command reads what is typed there, so it can trick nobody else.

(A program on a terminal that it shares with others can push keys into it. Here the command has the terminal to itself, and the
filter of system calls refuses the pushing too.)
"""

import fcntl
import os
import struct
import termios

DEFAULT_ROWS, DEFAULT_COLUMNS = 24, 80


def open_terminal() -> tuple[int, int]:
    """-> (our side, which never blocks; the command's side, which is to be closed once it has it)."""
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    resize(ours, DEFAULT_ROWS, DEFAULT_COLUMNS)
    return ours, theirs


def resize(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("=HHHH", rows, columns, 0, 0))
