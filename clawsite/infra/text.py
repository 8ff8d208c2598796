"""Text from outside, made storable. Needs no Django."""

from typing import Any


def storable(value: Any) -> Any:
    """The same JSON value without NUL (PostgreSQL stores none) and without half characters (no encoding has them)."""
    match value:
        case str():
            return _storable_text(value)
        case dict():
            return {storable(key): storable(each) for key, each in value.items()}
        case list() | tuple():
            return [storable(each) for each in value]
    return value


def _storable_text(text: str) -> str:
    if "\0" in text:
        text = text.replace("\0", "")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
