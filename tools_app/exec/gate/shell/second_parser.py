"""Parse the line with a second parser. Anything it finds that the first did not, or can't analyze, raises a doubt."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bashkit import Bash


@dataclass(frozen=True, slots=True)
class SecondParserResult:
    names: frozenset[str] = frozenset()
    trouble: str = ""  # why its result is incomplete


@lru_cache(maxsize=1)
def _make_parser() -> "Bash":
    from bashkit import Bash  # takes 40 ms and is only needed to analyze lines

    return Bash()


def run_second_parser(line: str) -> SecondParserResult:
    try:
        parsed = _make_parser().analyze(line)
    except BaseException as error:  # a panic of the native module is not an Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return SecondParserResult(trouble="the second parser cannot read the line")
    if parsed.truncated or parsed.is_opaque or parsed.has_dynamic_commands:
        return SecondParserResult(frozenset(parsed.command_names), "the second parser cannot see everything that would run")
    if parsed.functions or parsed.has_command_substitution:
        return SecondParserResult(frozenset(parsed.command_names), "the second parser found a function or a substitution")
    # After a trailing & it reports a command without any words.
    if any(command.name is None and command.args for command in parsed.commands):
        return SecondParserResult(frozenset(parsed.command_names), "the second parser cannot tell the name of a command")
    return SecondParserResult(frozenset(parsed.command_names))
