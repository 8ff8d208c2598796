"""Which commands of a node are allowed without anybody choosing them. Pure.

A name with one of these words among its parts reaches into the machine or the life of who owns it: `system.run`, `camera.snap`,
`sms.send`. Such a command is allowed only by a person who named it when the node was approved, or later.
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
