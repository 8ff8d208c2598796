"""Which node commands are allowed by default. Pure, without database access.

A command with one of these words in its name can affect the owner's machine or private life: `system.run`, `camera.snap`,
`sms.send`. A person must allow it explicitly when approving the node, or later.
"""

import re

DANGEROUS = re.compile(
    r"""
      system|shell|terminal|process|exec|run|eval|script|sudo|admin|install|update
    | browser|computer|desktop|keyboard|mouse|input|clipboard|screen|window
    | files?|fs|dirs?|directory|folders?|disk|workspace|memory|photos|camera|microphone|mic|audio|record|voice|talk
    | location|motion|health|contacts|calendar|reminders|sms|phone|call|mail|messages?
    | secrets?|passwords?|credentials?|wallet|payment
    """,
    re.VERBOSE | re.IGNORECASE,
)
WORD_PATTERN = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def is_allowed_by_default(command: str) -> bool:
    words = WORD_PATTERN.findall(command)
    return bool(words) and not any(DANGEROUS.fullmatch(word) for word in words)
