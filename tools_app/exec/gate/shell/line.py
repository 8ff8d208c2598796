"""Check the characters of a line: what is rejected before parsing, and spellings that parsers and bash read differently. No I/O."""

import re
import unicodedata

from tools_app.core.hidden_characters import INVISIBLE_RANGES
from tools_app.exec.gate.types import GateReason

MAX_LINE_BYTES = 16 * 1024

# In bash, backslash-newline joins tokens in places that no known parser handles: inside `$(`, before the end of a heredoc,
# at the end of a comment. After a blank it only separates words, and all parsers agree.
INVISIBLE_CHARACTERS = re.compile(f"[{INVISIBLE_RANGES}]")  # letters according to Unicode, but invisible
CONTINUATION = re.compile(r"(?<![ \t])\\\n")
ENDS_IN_BACKSLASH = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")


def find_rejections(line: str) -> tuple[GateReason, ...]:
    """Why the line can't be approved: approvers would not see what it does, or it is empty or too long."""
    try:
        size = len(line.encode())
    except UnicodeEncodeError:
        return (GateReason("bytes", "The line holds bytes that are not UTF-8."),)
    if not line.strip():
        return (GateReason("blank", "The line is empty."),)
    if size > MAX_LINE_BYTES:
        return (GateReason("size", f"The line has {size:,} bytes; {MAX_LINE_BYTES:,} is the most."),)
    if hidden := sorted({character for character in line if _is_hidden(character)}):
        names = ", ".join(f"U+{ord(character):04X}" for character in hidden[:5])
        return (GateReason("characters", f"The line holds control or invisible characters: {names}."),)
    return ()


def _is_hidden(character: str) -> bool:
    if character in " \t\n":
        return False
    # Cc control, Cf format (bidirectional marks, zero width), Zs Zl Zp blanks that bash does not treat as blanks;
    # Co Cn Cs have no defined appearance.
    if unicodedata.category(character) in {"Cc", "Cf", "Zs", "Zl", "Zp", "Co", "Cn", "Cs"}:
        return True
    return INVISIBLE_CHARACTERS.match(character) is not None


def find_spelling_doubts(line: str) -> tuple[GateReason, ...]:
    """Valid spellings that parsers are known to read differently from bash."""
    if "\\\n" in line:
        if CONTINUATION.search(line):
            return (GateReason("continuation", "A backslash at the end of a line joins two words; that hides what is run."),)
        if "#" in line or "<<" in line:
            return (GateReason("continuation", "A continued line together with a comment or a here-document can hide a command."),)
    if ENDS_IN_BACKSLASH.search(line):
        return (GateReason("continuation", "The line ends in a backslash."),)
    return ()
