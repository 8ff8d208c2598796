"""Option lists as data, and the parser that applies them. Options not in the list raise a doubt. No I/O.

A list is a string: `-l` and `--long` take no value; `-n:` and `--lines=` take a value, either the next word or the rest of this
one; `--color[=]` and `-u?` may have a value attached; `-W*` may be followed by anything; `-#` is a number. A trailing `>` means
that the value is a file the program writes to. Abbreviated long options are deliberately treated as unknown.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.shell.words import Word

register_reasons(
    {
        "option.position": gettext_noop("{word}, which could expand to an option,"),
        "option.name": gettext_noop("the option {name}"),
        "option.value_missing": gettext_noop("the option {name} without a value"),
        "option.value": gettext_noop("{word} as the value of {name}"),
    }
)


@dataclass(frozen=True, slots=True)
class OptionSpec:
    alone: frozenset[str]
    valued: frozenset[str]
    attached: frozenset[str]  # takes a value only if attached
    prefixes: tuple[str, ...]
    written: frozenset[str]
    number: bool


@lru_cache(maxsize=1024)
def parse_option_spec(text: str) -> OptionSpec:
    kinds: dict[str, set[str]] = {kind: set() for kind in ("alone", "valued", "attached", "prefixes", "written")}
    for entry in text.split():
        token = entry.removesuffix(">")
        for ending, kind in (
            ("[=]", "attached"),
            ("?", "attached"),
            ("=", "valued"),
            (":", "valued"),
            ("*", "prefixes"),
            ("", "alone"),
        ):
            if token.endswith(ending):
                name = token.removesuffix(ending)
                kinds[kind].add(name)
                if entry != token:
                    kinds["written"].add(name)
                break
    alone = frozenset(kinds["alone"])
    return OptionSpec(
        alone - {"-#"},
        frozenset(kinds["valued"]),
        frozenset(kinds["attached"]),
        tuple(kinds["prefixes"]),
        frozenset(kinds["written"]),
        "-#" in alone,
    )


@dataclass(slots=True)
class ParsedArguments:
    given: dict[str, list[Word]] = field(default_factory=dict)
    operands: list[Word] = field(default_factory=list)
    after: int = 0  # number of words read, if parsing stops at the first operand
    unknown: Reason | None = None  # the first item not on the list
    listed: bool = False  # relies on no file name starting with a dash

    def has(self, *names: str) -> bool:
        return any(name in self.given for name in names)

    def value(self, *names: str) -> Word | None:
        return next((self.given[name][-1] for name in names if name in self.given), None)

    def texts(self) -> list[str | None]:
        return [operand.text for operand in self.operands]


def parse_arguments(
    words: Sequence[Word], known: OptionSpec, *, stop_at_operand: bool = False, single_dash: bool = False
) -> ParsedArguments:
    """Parse the arguments. `single_dash` is for programs whose long options start with one dash."""
    parsed = ParsedArguments()
    index = 0
    while index < len(words) and not parsed.unknown:
        word = words[index]
        index += 1
        text = word.text
        if text is None:
            if not word.dashless:
                parsed.unknown = Reason("option.position", word=word.shown)
                break
            parsed.listed = parsed.listed or word.listed
        if text == "--":
            if stop_at_operand:
                break
            parsed.operands.extend(words[index:])
            index = len(words)
            break
        if text is None or not text.startswith("-") or text == "-":
            if stop_at_operand:
                index -= 1
                break
            parsed.operands.append(word)
        elif text.startswith("--") or single_dash:
            index += _parse_long(parsed, known, text, words[index : index + 1])
        else:
            index += _parse_short(parsed, known, text, words[index : index + 1])
    parsed.after = index
    return parsed


def _parse_long(parsed: ParsedArguments, known: OptionSpec, text: str, following: Sequence[Word]) -> int:
    name, equals, value = text.partition("=")
    if equals and (name in known.valued or name in known.attached):
        parsed.given.setdefault(name, []).append(_literal_word(value))
        return 0
    if not equals and (name in known.alone or name in known.attached):
        parsed.given.setdefault(name, []).append(_literal_word(""))
        return 0
    if not equals and name in known.valued:
        return _take_value(parsed, name, following)
    if known.number and re.fullmatch(r"-[0-9]+", text):
        return 0
    if prefix := next((each for each in known.prefixes if text.startswith(each)), None):
        parsed.given.setdefault(prefix, []).append(_literal_word(text.removeprefix(prefix)))
        return 0
    parsed.unknown = Reason("option.name", name=name)
    return 0


def _parse_short(parsed: ParsedArguments, known: OptionSpec, text: str, following: Sequence[Word]) -> int:
    if known.number and re.fullmatch(r"-[0-9]+", text):
        return 0
    if prefix := next((each for each in known.prefixes if text.startswith(each)), None):
        parsed.given.setdefault(prefix, []).append(_literal_word(text.removeprefix(prefix)))
        return 0
    if text in known.alone:  # such as -nc, which is one option
        parsed.given.setdefault(text, []).append(_literal_word(""))
        return 0
    for at in range(1, len(text)):
        name, rest = f"-{text[at]}", text[at + 1 :]
        if name in known.valued:
            if not rest:
                return _take_value(parsed, name, following)
            parsed.given.setdefault(name, []).append(_literal_word(rest))
            return 0
        if name in known.attached:
            parsed.given.setdefault(name, []).append(_literal_word(rest))
            return 0
        if name not in known.alone:
            parsed.unknown = Reason("option.name", name=name)
            return 0
        parsed.given.setdefault(name, []).append(_literal_word(""))
    return 0


def _take_value(parsed: ParsedArguments, name: str, following: Sequence[Word]) -> int:
    if not following:
        parsed.unknown = Reason("option.value_missing", name=name)
        return 0
    if not following[0].single:
        parsed.unknown = Reason("option.value", name=name, word=following[0].shown)
        return 0
    parsed.given.setdefault(name, []).append(following[0])
    return 1


def _literal_word(text: str) -> Word:
    return Word(text=text, lead=text, dashless=not text.startswith("-"))
