"""Find shell builtins that need approval, because they run something or change something important. No I/O."""

import re
from collections.abc import Sequence

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.shell.words import Word
from tools_app.exec.gate.types import split_names

register_reasons(
    {"gate.builtin": gettext_noop("The shell builtin {name}, with these arguments, can evaluate code or change the shell's state.")}
)

# bash 5.2's `compgen -b`, and reserved words that a parser may take for commands.
BUILTINS = split_names(""". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown
    echo enable
    eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd
    read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit umask unalias
    unset wait""")
RESERVED = split_names("! { } [[ ]] case coproc do done elif else esac fi for function if in select then time until while")

ASSIGNING_FORMAT = re.compile(r"%[^A-Za-z%]*[hlLjzt]*n")  # `printf '12345%n' PATH` sets PATH to 5
NUMBER = re.compile(r"[0-9]{1,3}")
# These options can only make the line end early.
STRICTER_OPTIONS = frozenset({("-e",), ("-u",), ("-eu",), ("-ue",), ("-o", "pipefail"), ("-eo", "pipefail"), ("-euo", "pipefail")})
ONE_OPERAND = split_names("-a -b -c -d -e -f -g -h -k -n -p -r -s -t -u -w -x -z -G -L -N -O -S")
TWO_OPERANDS = split_names("= == != < > -eq -ne -lt -le -gt -ge -ef -nt -ot")


def find_builtin_doubt(name: str, arguments: Sequence[Word]) -> Reason | None:
    """Why this builtin needs approval; None if it runs nothing."""
    texts = [argument.text for argument in arguments]
    match name:
        case ":" | "true" | "false" | "echo" | "cd":
            return None
        case "pwd":
            harmless = all(text in ("-L", "-P") for text in texts)
        case "printf":
            harmless = _is_plain_printf(texts)
        case "test":
            harmless = _is_plain_comparison(arguments)
        case "[":
            harmless = bool(texts) and texts[-1] == "]" and _is_plain_comparison(arguments[:-1])
        case "exit" | "break" | "continue":
            harmless = not texts or (len(texts) == 1 and bool(NUMBER.fullmatch(texts[0] or "")))
        case "wait":
            harmless = not texts
        case "set":
            harmless = tuple(texts) in STRICTER_OPTIONS
        case "command":
            harmless = len(texts) > 1 and texts[0] in ("-v", "-V") and None not in texts
        case "type":
            harmless = bool(texts) and None not in texts
        case _:
            harmless = False
    if harmless:
        return None
    return Reason("gate.builtin", name=name)


def _is_plain_printf(texts: Sequence[str | None]) -> bool:
    """`-v` assigns a variable and evaluates an index in its name, and %n assigns too, so the format must be literal."""
    rest = texts[1:] if texts and texts[0] == "--" else texts
    if not rest or rest[0] is None or ASSIGNING_FORMAT.search(rest[0]):
        return False
    return rest is not texts or not rest[0].startswith("-")


def _is_plain_comparison(words: Sequence[Word]) -> bool:
    """`-v` and `-R` evaluate an index, so no word may expand to one: operators must be literal, operands single words."""
    if all(word.text is not None for word in words):
        return not any(word.text in ("-v", "-R") for word in words)
    if not all(word.single for word in words):
        return False
    if words[0].text == "!":
        words = words[1:]
    match len(words):
        case 1:
            return True
        case 2:
            return words[0].text in ONE_OPERAND
        case 3:
            return words[1].text in TWO_OPERANDS
    return False
