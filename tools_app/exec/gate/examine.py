"""Combine the findings about one line: the walk, the second parser, files, argument rules and the blocklist."""

import os
from collections.abc import Iterable, Sequence

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.allowlist import make_shape
from tools_app.exec.gate.blocklist import find_blocked
from tools_app.exec.gate.combinations import StartedProgram, find_combined_doubts
from tools_app.exec.gate.executable_names import list_names
from tools_app.exec.gate.executables import find_executable, identify_scripts
from tools_app.exec.gate.programs.invocation import ProgramCall, why_write_doubtful
from tools_app.exec.gate.programs.registry import apply_rules, why_never_granted
from tools_app.exec.gate.shell.find_commands import MAX_COMMANDS, walk_tree
from tools_app.exec.gate.shell.findings import ShellCommand, TooManyCommands, WalkResult
from tools_app.exec.gate.shell.second_parser import SecondParserResult
from tools_app.exec.gate.shell.shfmt import Node
from tools_app.exec.gate.shell.words import Word
from tools_app.exec.gate.types import Analysis, ExecContext, LinePart, Program

register_reasons(
    {
        "gate.blank.comments": gettext_noop("The command line contains only comments."),
        "gate.too-many": gettext_noop("The command line has more than {limit} commands."),
        "gate.second-opinion.trouble": gettext_noop("Two parsers read every command line, and {trouble}."),
        "gate.second-opinion.name": gettext_noop("The two parsers disagree: only one finds the command {name}."),
        "gate.write.redirection": gettext_noop("A redirection writes to a file: {finding}."),
        "wrapper.depth": gettext_noop("too many nested programs (each one starts the next)"),
    }
)

MAX_WRAPPER_DEPTH = 4  # a program that starts a program that starts a program …


def examine(line: str, context: ExecContext, tree: Node, second: SecondParserResult, spelling: tuple[Reason, ...]) -> Analysis:
    if not tree.get("Stmts"):
        return Analysis(line, refused=(Reason("gate.blank.comments"),))
    try:
        walked = walk_tree(tree, context)
    except TooManyCommands:
        doubt = Reason("gate.too-many", limit=MAX_COMMANDS)
        return Analysis(line, doubts=(doubt,), unparsed=True)
    started: list[StartedProgram] = []
    programs = [program for command in walked.commands for program in _find_programs(command, context, started)]
    calls = [call for _, call in started]
    doubts = [
        *spelling,
        *walked.doubts,
        *_find_disagreement(walked, second),
        *_find_write_doubts(walked, context),
        *find_combined_doubts(walked, started),
    ]
    return Analysis(
        line=line,
        argv=_argv(walked, programs),
        programs=tuple(programs),
        executables=tuple(dict.fromkeys(program.executable for program in programs if program.executable)),
        scripts=identify_scripts((path for call in calls for path in call.scripts), context),
        doubts=tuple(dict.fromkeys(doubts)),
        refused=tuple(dict.fromkeys([*walked.refused, *find_blocked(walked.commands, walked.writes, context)])),
        parts=_to_parts(line, walked),
        writes=tuple(
            dict.fromkeys([*(w.target.text or "" for w in walked.writes), *(path for call in calls for path in call.writes)])
        ),
        access_hints=tuple(dict.fromkeys(touch for call in calls for touch in call.access_hints)),
    )


def _find_programs(command: ShellCommand, context: ExecContext, started: list[StartedProgram]) -> Iterable[Program]:
    if command.builtin or command.name.text is None:
        return
    queue: list[tuple[Word, ...]] = [(command.name, *command.arguments)]
    rounds = 0
    while queue:
        words = queue.pop(0)
        name = words[0].text or ""
        executable = find_executable(name, command.cwds, context)
        bases = [os.path.basename(name)]
        if executable:
            bases += [os.path.basename(executable.realpath), *list_names(executable, context)]
        call = ProgramCall(bases[0], words[1:], command.cwds, context)
        apply_rules(call, *bases)
        rounds += 1
        if rounds > MAX_WRAPPER_DEPTH:
            call.doubt(Reason("wrapper.depth"))
            call.starts.clear()
        queue.extend(call.starts)
        started.append((command, call))
        yield Program(
            name=name,
            arguments=tuple(word.text for word in words[1:]),
            executable=executable,
            doubts=tuple(dict.fromkeys(call.doubts)),
            standing=tuple(dict.fromkeys(call.standing)),
            shape=make_shape(bases, words[1:], certain=not call.doubts and not call.standing),
            never_always=why_never_granted(*bases),
        )


def _find_disagreement(walked: WalkResult, second: SecondParserResult) -> Iterable[Reason]:
    if second.trouble:
        yield Reason("gate.second-opinion.trouble", trouble=second.trouble)
    seen = {command.name.text for command in walked.commands if command.name.text is not None}
    for name in sorted(second.names - seen):
        yield Reason("gate.second-opinion.name", name=name)


def _find_write_doubts(walked: WalkResult, context: ExecContext) -> Iterable[Reason]:
    for write in walked.writes:
        if doubt := why_write_doubtful(write.target, write.cwds, context):
            yield Reason("gate.write.redirection", finding=doubt)


def _argv(walked: WalkResult, programs: Sequence[Program]) -> tuple[str, ...] | None:
    if not walked.only_command or not programs or len(walked.commands) != 1 or walked.commands[0].builtin:
        return None
    texts = [word.text for word in walked.commands[0].arguments]
    return None if None in texts else (programs[0].name, *(text for text in texts if text is not None))


def _to_parts(line: str, walked: WalkResult) -> tuple[LinePart, ...]:
    """Convert the marks to parts with character offsets: parsers count bytes."""
    raw = line.encode()

    def characters(offset: int) -> int:
        return min(offset, len(line)) if line.isascii() else len(raw[:offset].decode(errors="ignore"))

    marks = {(begin, end): (kind, note) for begin, end, kind, note in walked.marks}  # the later mark of a word is more specific
    return tuple(LinePart(characters(begin), characters(end), kind, note) for (begin, end), (kind, note) in sorted(marks.items()))
