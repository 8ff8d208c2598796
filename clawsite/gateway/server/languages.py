"""The language of a client, for error messages and the output of slash commands."""

from django.utils import translation


def find_language(code: str) -> str:
    """Return the supported language for a locale such as zh-CN, "" if there is none."""
    try:
        return translation.get_supported_language_variant(code.lower())
    except (LookupError, ValueError):  # ValueError: more than 500 characters
        return ""
