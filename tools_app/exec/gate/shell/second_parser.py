"""Parse the line with a second parser. Anything it finds that the first did not, or can't analyze, raises a doubt."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons

if TYPE_CHECKING:
    from bashkit import Bash


register_reasons(
    {
        "second_parser.failed": gettext_noop("the second parser can't read it"),
        "second_parser.incomplete": gettext_noop("the second parser can't see everything that would run"),
        "second_parser.nested": gettext_noop("the second parser found a function or a substitution"),
        "second_parser.unnamed": gettext_noop("the second parser can't determine the name of a command"),
    }
)


@dataclass(frozen=True, slots=True)
class SecondParserResult:
    names: frozenset[str] = frozenset()
    trouble: Reason | None = None  # why its result is incomplete


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
        return SecondParserResult(trouble=Reason("second_parser.failed"))
    if parsed.truncated or parsed.is_opaque or parsed.has_dynamic_commands:
        return SecondParserResult(frozenset(parsed.command_names), Reason("second_parser.incomplete"))
    if parsed.functions or parsed.has_command_substitution:
        return SecondParserResult(frozenset(parsed.command_names), Reason("second_parser.nested"))
    # After a trailing & it reports a command without any words.
    if any(command.name is None and command.args for command in parsed.commands):
        return SecondParserResult(frozenset(parsed.command_names), Reason("second_parser.unnamed"))
    return SecondParserResult(frozenset(parsed.command_names))
