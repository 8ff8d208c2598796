"""Text from outside, made storable. Needs no Django."""

from typing import Any


def without_nul(value: Any) -> Any:
    """The same JSON value without NUL characters: PostgreSQL stores none, and no one means any."""
    match value:
        case str():
            return value.replace("\0", "") if "\0" in value else value
        case dict():
            return {without_nul(key): without_nul(each) for key, each in value.items()}
        case list() | tuple():
            return [without_nul(each) for each in value]
    return value
