"""Puts the findings about one line together: the walk, the second parser, the files, the argument rules, the blocklist."""

import os
from collections.abc import Iterable, Sequence

from tools_app.exec.gate.allowlist import shape_of
from tools_app.exec.gate.blocklist import dangers
from tools_app.exec.gate.combinations import Started, together
from tools_app.exec.gate.executable_names import names_of
from tools_app.exec.gate.executables import find_executable, identify_scripts
from tools_app.exec.gate.programs.invocation import Call, write_doubt
from tools_app.exec.gate.programs.registry import apply_rules, never_always
from tools_app.exec.gate.shell.findings import Command, TooMuch, Walked
from tools_app.exec.gate.shell.parser import Node
from tools_app.exec.gate.shell.second_parser import Opinion
from tools_app.exec.gate.shell.walk import MOST_COMMANDS, walk
from tools_app.exec.gate.shell.words import Word
from tools_app.exec.gate.types import Analysis, Part, Place, Program, Reason

MOST_WRAPPED = 4  # a program that starts one that starts one …


def examine(line: str, place: Place, tree: Node, opinion: Opinion, spelling: tuple[Reason, ...]) -> Analysis:
    if not tree.get("Stmts"):
        return Analysis(line, refused=(Reason("blank", "The line holds nothing but comments."),))
    try:
        walked = walk(tree, place)
    except TooMuch:
        doubt = Reason("too-many", f"The line holds more than {MOST_COMMANDS} commands.")
        return Analysis(line, doubts=(doubt,), unread=True)
    started: list[Started] = []
    programs = [program for command in walked.commands for program in _programs(command, place, started)]
    calls = [call for _, call in started]
    doubts = [
        *spelling,
        *walked.doubts,
        *_disagreement(walked, opinion),
        *_write_doubts(walked, place),
        *together(walked, started),
    ]
    return Analysis(
        line=line,
        argv=_argv(walked, programs),
        programs=tuple(programs),
        executables=tuple(dict.fromkeys(program.executable for program in programs if program.executable)),
        scripts=identify_scripts((path for call in calls for path in call.scripts), place),
        doubts=tuple(dict.fromkeys(doubts)),
        refused=tuple(dict.fromkeys([*walked.refused, *dangers(walked.commands, walked.writes, place)])),
        parts=_parts(line, walked),
        writes=tuple(
            dict.fromkeys([*(w.target.text or "" for w in walked.writes), *(path for call in calls for path in call.writes)])
        ),
        touches=tuple(dict.fromkeys(touch for call in calls for touch in call.touches)),
    )


def _programs(command: Command, place: Place, started: list[Started]) -> Iterable[Program]:
    if command.builtin or command.name.text is None:
        return
    waiting: list[tuple[Word, ...]] = [(command.name, *command.arguments)]
    rounds = 0
    while waiting:
        words = waiting.pop(0)
        name = words[0].text or ""
        executable = find_executable(name, command.cwds, place)
        bases = [os.path.basename(name)]
        if executable:
            bases += [os.path.basename(executable.realpath), *names_of(executable, place)]
        call = Call(bases[0], words[1:], command.cwds, place)
        apply_rules(call, *bases)
        rounds += 1
        if rounds > MOST_WRAPPED:
            call.doubt("it starts a program that starts another one, and so on")
            call.starts.clear()
        waiting.extend(call.starts)
        started.append((command, call))
        yield Program(
            name=name,
            arguments=tuple(word.text for word in words[1:]),
            executable=executable,
            doubts=tuple(dict.fromkeys(call.doubts)),
            standing=tuple(dict.fromkeys(call.standing)),
            shape=shape_of(bases, words[1:], certain=not call.doubts and not call.standing),
            never_always=never_always(*bases),
        )


def _disagreement(walked: Walked, opinion: Opinion) -> Iterable[Reason]:
    if opinion.trouble:
        yield Reason("second-opinion", f"Two parsers read every line, and {opinion.trouble}.")
    seen = {command.name.text for command in walked.commands if command.name.text is not None}
    for name in sorted(opinion.names - seen):
        yield Reason("second-opinion", f"Two parsers read every line, and only one of them sees the command {name}.")


def _write_doubts(walked: Walked, place: Place) -> Iterable[Reason]:
    for write in walked.writes:
        if found := write_doubt(write.target, write.cwds, place):
            yield Reason("write", f"A redirection writes: {found}.")


def _argv(walked: Walked, programs: Sequence[Program]) -> tuple[str, ...] | None:
    if not walked.only_command or not programs or len(walked.commands) != 1 or walked.commands[0].builtin:
        return None
    texts = [word.text for word in walked.commands[0].arguments]
    return None if None in texts else (programs[0].name, *(text for text in texts if text is not None))


def _parts(line: str, walked: Walked) -> tuple[Part, ...]:
    """In characters: parsers count bytes."""
    raw = line.encode()

    def characters(offset: int) -> int:
        return min(offset, len(line)) if line.isascii() else len(raw[:offset].decode(errors="ignore"))

    marks = {(begin, end): (kind, note) for begin, end, kind, note in walked.marks}  # the later mark of a word knows more
    return tuple(Part(characters(begin), characters(end), kind, note) for (begin, end), (kind, note) in sorted(marks.items()))
