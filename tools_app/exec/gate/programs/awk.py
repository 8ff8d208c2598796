"""Check that an awk program starts no program and writes no file. Anything it can't parse counts as unsafe. No I/O."""

import re

UNSAFE_PATTERN = re.compile(r"\bsystem\b|\bgetline\b|@|(?<!\|)\|(?!\|)|\|&")
REDIRECTED_PRINT = re.compile(r"\bprintf?\b[^{};\n]*>")
BEFORE_REGEX = "(,~!&|{;\n"


def is_harmless(program: str) -> bool:
    if "\\\n" in program:
        return False  # a joined line may turn what looks like the start of a regex into a division
    if not UNSAFE_PATTERN.search(program) and ">" not in program:
        return True
    code = _remove_literals(program)
    return code is not None and not UNSAFE_PATTERN.search(code) and not REDIRECTED_PRINT.search(code)


def _remove_literals(program: str) -> str | None:
    """The program without strings, regexes and comments; None if it is not certain where one ends."""
    code: list[str] = []
    at, last = 0, "\n"
    while at < len(program):
        character = program[at]
        if character == '"' or (character == "/" and last in BEFORE_REGEX):
            end = re.compile(rf"(?:[^{character}\\\n]|\\.)*{character}").match(program, at + 1)
            if not end or (character == "/" and "[" in end[0]):
                return None
            at, last = end.end(), "x"
            code.append(" 0 ")
            continue
        if character == "#":
            end_of_line = program.find("\n", at)
            at = len(program) if end_of_line == -1 else end_of_line
            continue
        if character == "/":
            return None  # a division, or a regex in an unknown position
        code.append(character)
        if character not in " \t":
            last = character
        at += 1
    return "".join(code)
