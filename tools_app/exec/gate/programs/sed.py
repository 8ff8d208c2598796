"""Check that a sed script starts no program and writes no file. Anything it can't parse counts as unsafe. No I/O."""

import re

ADDRESS = re.compile(r"\s*(?:[0-9]+(?:~[0-9]+)?|\$|\+[0-9]+|~[0-9]+)")
PLAIN_COMMANDS = frozenset("pdDPnNhHgGxzlq=Q")
TEXT_COMMANDS = frozenset("aic")
LABEL_COMMANDS = frozenset("btT:")
BRACKET = re.compile(r"\[\^?\]?[^\]]*\]")
LABEL = re.compile(r" *[A-Za-z0-9_]*")  # a semicolon ends it, and another command may follow
FLAGS = re.compile(r"[gpiImM0-9]*")  # not e, which runs the result, and not w, which writes it


def is_harmless(script: str) -> bool:
    at = 0
    while at < len(script):
        if script[at] in " \t\n;}":
            at += 1
            continue
        following = _skip_command(script, _skip_addresses(script, at))
        if following is None:
            return False
        at = following
    return True


def _skip_addresses(script: str, at: int) -> int | None:
    for index in range(2):
        if index == 1:
            comma = re.compile(r"\s*,").match(script, at)
            if not comma:
                break
            at = comma.end()
        start = at + len(script[at:]) - len(script[at:].lstrip(" \t"))
        if found := ADDRESS.match(script, at):
            at = found.end()
        elif script[start : start + 1] in ("/", "\\"):
            opening = start if script[start] == "/" else start + 1
            end = _skip_delimited(script, opening)
            if end is None:
                return None
            at = end
            while script[at : at + 1] in ("I", "M"):
                at += 1
        elif index == 1:
            return None
    while script[at : at + 1] in (" ", "\t", "!"):
        at += 1
    return at


def _skip_command(script: str, at: int | None) -> int | None:
    if at is None or at >= len(script):
        return None
    letter = script[at]
    at += 1
    if letter == "{":
        return at
    if letter == "#":
        return _find_line_end(script, at)
    if letter in PLAIN_COMMANDS:
        while script[at : at + 1].isdigit() or script[at : at + 1] == " ":
            at += 1
        return at if at == len(script) or script[at] in ";\n}" else None
    if letter in LABEL_COMMANDS:
        label = LABEL.match(script, at)
        return label.end() if label else None
    if letter in TEXT_COMMANDS:
        # A backslash continues the text; whether a later line is a command is then unclear.
        return None if "\\\n" in script[at:] else _find_line_end(script, at)
    if letter in "sy":
        middle = _skip_delimited(script, at)
        end = _skip_delimited(script, middle - 1) if middle is not None else None
        if end is None:
            return None
        flags = FLAGS.match(script, end) if letter == "s" else None
        at = flags.end() if flags else end
        while script[at : at + 1] == " ":
            at += 1
        return at if at == len(script) or script[at] in ";\n}" else None
    return None


def _skip_delimited(script: str, at: int) -> int | None:
    """Skip from a delimiter past the next one. sed might end a bracket elsewhere than we do, so only simple ones are accepted."""
    delimiter = script[at : at + 1]
    if not delimiter or delimiter in "\\\n" or delimiter.isalnum():
        return None
    at += 1
    while at < len(script):
        if script[at] == "\\":
            at += 2
        elif script[at] == "[" and delimiter not in "[]":
            bracket = BRACKET.match(script, at)
            if not bracket or delimiter in bracket[0]:
                return None
            at += 1
        elif script[at] == delimiter:
            return at + 1
        else:
            at += 1
    return None


def _find_line_end(script: str, at: int) -> int:
    end = script.find("\n", at)
    return len(script) if end == -1 else end
