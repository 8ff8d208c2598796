"""Another parser reads the same line. What it names and the first did not, or cannot see through, is a doubt."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bashkit import Bash


@dataclass(frozen=True, slots=True)
class Opinion:
    names: frozenset[str] = frozenset()
    trouble: str = ""  # why it cannot tell


@lru_cache(maxsize=1)
def _reader() -> "Bash":
    from bashkit import Bash  # 40 ms, and only who analyses a line needs it

    return Bash()


def second_opinion(line: str) -> Opinion:
    try:
        found = _reader().analyze(line)
    except BaseException as error:  # a panic of the native module is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return Opinion(trouble="the second parser cannot read the line")
    if found.truncated or found.is_opaque or found.has_dynamic_commands:
        return Opinion(frozenset(found.command_names), "the second parser cannot see everything that would run")
    if found.functions or found.has_command_substitution:
        return Opinion(frozenset(found.command_names), "the second parser found a function or a substitution")
    # Behind a final & it sees a command of no words at all.
    if any(command.name is None and command.args for command in found.commands):
        return Opinion(frozenset(found.command_names), "the second parser cannot tell the name of a command")
    return Opinion(frozenset(found.command_names))
