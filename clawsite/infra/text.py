"""Clean untrusted text before storing it. Needs no Django."""

from typing import Any


def make_storable(value: Any) -> Any:
    """Return the JSON value without NUL (PostgreSQL can't store it) and with lone surrogates (not valid UTF-8) replaced."""
    match value:
        case str():
            return _make_text_storable(value)
        case dict():
            return {make_storable(key): make_storable(each) for key, each in value.items()}
        case list() | tuple():
            return [make_storable(each) for each in value]
    return value


def _make_text_storable(text: str) -> str:
    if "\0" in text:
        text = text.replace("\0", "")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
