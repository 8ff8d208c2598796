"""Text from outside, made storable. Needs no Django."""

from typing import Any


def make_storable(value: Any) -> Any:
    """The same JSON value without NUL (PostgreSQL stores none) and without half characters (no encoding has them)."""
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
