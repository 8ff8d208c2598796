"""What a server says about itself is data from outside: made visible, and cut to a length. Pure."""

import unicodedata

# Cc control, Cf format (zero width, direction marks, tags), Cs half characters, Co private use, Cn unassigned.
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn"}
CUT = " […]"


def plain(text: str, limit: int) -> str:
    """The text without characters that a person would not see but a model would read, at most `limit` long."""
    text = text[: 4 * limit]  # so that a megabyte is not looked at letter by letter
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    kept = "".join(letter for letter in text if letter in "\n\t" or not is_hidden(letter)).strip()
    return kept if len(kept) <= limit else kept[: limit - len(CUT)].rstrip() + CUT


def is_hidden(letter: str) -> bool:
    if letter.isascii():
        return not letter.isprintable()
    return unicodedata.category(letter) in HIDDEN or _is_variation_selector(ord(letter))


def _is_variation_selector(code: int) -> bool:
    """They change how the letter before them looks, and can spell out anything unseen."""
    return 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF
