"""Terminal keys by name, and the bytes a program reads when they are pressed."""

import string

_NAMED_KEYS = {
    "enter": "\r", "tab": "\t", "shift-tab": "\x1b[Z", "escape": "\x1b", "space": " ", "backspace": "\x7f",
    "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D",
    "home": "\x1b[H", "end": "\x1b[F", "insert": "\x1b[2~", "delete": "\x1b[3~", "pageup": "\x1b[5~", "pagedown": "\x1b[6~",
    "f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~", "f6": "\x1b[17~", "f7": "\x1b[18~",
    "f8": "\x1b[19~", "f9": "\x1b[20~", "f10": "\x1b[21~", "f11": "\x1b[23~", "f12": "\x1b[24~",
    "ctrl-space": "\0", "ctrl-[": "\x1b", "ctrl-\\": "\x1c", "ctrl-]": "\x1d", "ctrl-^": "\x1e", "ctrl-_": "\x1f",
}  # fmt: skip
KEYS = _NAMED_KEYS | {f"ctrl-{letter}": chr(ord(letter) - 96) for letter in string.ascii_lowercase}


class UnknownKey(ValueError):
    """There is no key with that name."""


def encode_keys(*names: str) -> bytes:
    """The bytes of these keys, pressed in order."""
    unknown = [name for name in names if name.lower() not in KEYS]
    if unknown:
        raise UnknownKey(", ".join(unknown))
    return "".join(KEYS[name.lower()] for name in names).encode()
