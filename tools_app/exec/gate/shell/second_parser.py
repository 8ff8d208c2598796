"""Another parser reads the same line. What it names and the first did not, or cannot see through, is a doubt."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bashkit import Bash


@dataclass(frozen=True, slots=True)
class SecondParserResult:
    names: frozenset[str] = frozenset()
    trouble: str = ""  # why it cannot tell


@lru_cache(maxsize=1)
def _make_parser() -> "Bash":
    from bashkit import Bash  # 40 ms, and only who analyses a line needs it

    return Bash()


def run_second_parser(line: str) -> SecondParserResult:
    try:
        found = _make_parser().analyze(line)
    except BaseException as error:  # a panic of the native module is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return SecondParserResult(trouble="the second parser cannot read the line")
    if found.truncated or found.is_opaque or found.has_dynamic_commands:
        return SecondParserResult(frozenset(found.command_names), "the second parser cannot see everything that would run")
    if found.functions or found.has_command_substitution:
        return SecondParserResult(frozenset(found.command_names), "the second parser found a function or a substitution")
    # Behind a final & it sees a command of no words at all.
    if any(command.name is None and command.args for command in found.commands):
        return SecondParserResult(frozenset(found.command_names), "the second parser cannot tell the name of a command")
    return SecondParserResult(frozenset(found.command_names))
