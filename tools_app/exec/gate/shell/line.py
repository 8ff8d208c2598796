"""Check the characters of a line: what is rejected before parsing, and spellings that parsers and bash read differently. No I/O."""

import re
import unicodedata

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.core.hidden_characters import INVISIBLE_RANGES

register_reasons(
    {
        "gate.bytes": gettext_noop("The command line contains bytes that are not UTF-8."),
        "gate.blank": gettext_noop("The command line is empty."),
        "gate.size": gettext_noop("The command line has {size} bytes; the limit is {limit}."),
        "gate.characters": gettext_noop("The command line contains control or invisible characters: {characters}."),
        "gate.continuation.joined": gettext_noop(
            "A line continuation (a backslash at the end of a line) joins two words, which hides what runs."
        ),
        "gate.continuation.hidden": gettext_noop(
            "A line continuation combined with a comment or a here-document can hide a command."
        ),
        "gate.continuation.end": gettext_noop("The command line ends in a backslash."),
    }
)

MAX_LINE_BYTES = 16 * 1024

# In bash, backslash-newline joins tokens in places that no known parser handles: inside `$(`, before the end of a heredoc,
# at the end of a comment. After a blank it only separates words, and all parsers agree.
INVISIBLE_CHARACTERS = re.compile(f"[{INVISIBLE_RANGES}]")  # letters according to Unicode, but invisible
CONTINUATION = re.compile(r"(?<![ \t])\\\n")
ENDS_IN_BACKSLASH = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")


def find_rejections(line: str) -> tuple[Reason, ...]:
    """Why the line can't be approved: approvers would not see what it does, or it is empty or too long."""
    try:
        size = len(line.encode())
    except UnicodeEncodeError:
        return (Reason("gate.bytes"),)
    if not line.strip():
        return (Reason("gate.blank"),)
    if size > MAX_LINE_BYTES:
        return (Reason("gate.size", size=size, limit=MAX_LINE_BYTES),)
    if hidden := sorted({character for character in line if _is_hidden(character)}):
        names = ", ".join(f"U+{ord(character):04X}" for character in hidden[:5])
        return (Reason("gate.characters", characters=names),)
    return ()


def _is_hidden(character: str) -> bool:
    if character in " \t\n":
        return False
    # Cc control, Cf format (bidirectional marks, zero width), Zs Zl Zp blanks that bash does not treat as blanks;
    # Co Cn Cs have no defined appearance.
    if unicodedata.category(character) in {"Cc", "Cf", "Zs", "Zl", "Zp", "Co", "Cn", "Cs"}:
        return True
    return INVISIBLE_CHARACTERS.match(character) is not None


def find_spelling_doubts(line: str) -> tuple[Reason, ...]:
    """Valid spellings that parsers are known to read differently from bash."""
    if "\\\n" in line:
        if CONTINUATION.search(line):
            return (Reason("gate.continuation.joined"),)
        if "#" in line or "<<" in line:
            return (Reason("gate.continuation.hidden"),)
    if ENDS_IN_BACKSLASH.search(line):
        return (Reason("gate.continuation.end"),)
    return ()
