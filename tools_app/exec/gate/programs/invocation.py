"""One program start as the argument rules see it: its arguments, where it runs, and what a rule finds out about it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.executables import is_inside, to_host_path
from tools_app.exec.gate.programs.options import ParsedArguments, parse_arguments, parse_option_spec
from tools_app.exec.gate.shell.words import Word
from tools_app.exec.gate.types import ExecContext

register_reasons(
    {
        "gate.arguments": gettext_noop("{program}: {finding}."),
        "gate.files": gettext_noop("{program}: {finding}."),
        "gate.write": gettext_noop("{program}: {finding}."),
        "gate.inline-code": gettext_noop("{program}: {finding}."),
        "program.unknown_argument": gettext_noop("{argument} is not known to be safe"),
        "program.runs_code": gettext_noop("it runs code, and {why}"),
        "program.settings": gettext_noop("it would use the settings in {file}"),
        "program.unknown_program": gettext_noop("the program it starts is only known at run time"),
        "path.uncertain": gettext_noop("{path} may be outside the workspace"),
        "path.outside": gettext_noop("{path} is outside the workspace"),
        "path.unknown": gettext_noop("{path} is outside the workspace, or its location is unknown"),
        "path.git": gettext_noop("{path} is in .git, where settings and hooks determine what git runs"),
        "path.settings": gettext_noop("{path} contains settings that other programs use"),
        "path.with": gettext_noop("a path with {part}"),
    }
)

SHARED_HOME = "/tmp"  # noqa: S108  # the home directory of commands without a sandbox
SETTINGS_FILES = frozenset({".curlrc", "curlrc", ".popt"})  # in the home, which may be the workspace
HARMLESS_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


@dataclass(slots=True)
class ProgramCall:
    name: str
    arguments: tuple[Word, ...]
    cwds: frozenset[str] | None
    context: ExecContext
    doubts: list[Reason] = field(default_factory=list)
    standing: list[Reason] = field(default_factory=list)  # doubts about files, not about the arguments
    writes: list[str] = field(default_factory=list)
    access_hints: list[str] = field(default_factory=list)
    content_targets: list[str] = field(default_factory=list)  # where it writes content; empty string if only known at run time
    starts: list[tuple[Word, ...]] = field(default_factory=list)  # programs it starts itself: name and arguments
    scripts: list[str] = field(default_factory=list)  # files whose content it runs
    runs_code: bool = False  # from the workspace: the scripts, and whatever they or the program's settings there load
    listed: bool = False  # relies on no file name starting with a dash
    reads_only: bool = False

    def doubt(self, finding: Reason, code: str = "gate.arguments") -> None:
        self.doubts.append(Reason(code, program=self.name, finding=finding))

    def doubt_files(self, finding: Reason, code: str = "gate.files") -> None:
        """Record a doubt about files as they are now. Approving the arguments does not cover it."""
        self.standing.append(Reason(code, program=self.name, finding=finding))

    def read(
        self, known: str, words: Sequence[Word] | None = None, *, stop_at_operand: bool = False, single_dash: bool = False
    ) -> ParsedArguments:
        """Parse the arguments using a list of options. Records a doubt for anything not listed."""
        listed = parse_option_spec(known)
        found = parse_arguments(
            self.arguments if words is None else words, listed, stop_at_operand=stop_at_operand, single_dash=single_dash
        )
        self.listed = self.listed or found.listed
        if found.unknown:
            self.doubt(Reason("program.unknown_argument", argument=found.unknown))
        for name in listed.written & found.given.keys():
            for value in found.given[name]:
                self.write(value)
        return found

    def write(self, target: Word, *, content: bool = True) -> None:
        """Record a write; outside the workspace, also a doubt. Without `content`, it only creates, touches or removes files."""
        if found := why_write_doubtful(target, self.cwds, self.context):
            (self.doubt_files if follows_link(target, self.cwds, self.context) else self.doubt)(found, "gate.write")
        if target.text:
            self.writes.append(target.text)
        if content:
            self.content_targets.append(target.text or "")

    def run_code(self, *files: Word, cwds: frozenset[str] | None = None) -> None:
        """Record that it runs code from these files and its directory, and a doubt unless all are in the workspace."""
        self.runs_code = True
        where = self.cwds if cwds is None else cwds
        for file in (Word(text=".", lead="."), *files):
            if found := why_outside_workspace(file, where, self.context):
                linked = follows_link(file, where, self.context)
                (self.doubt_files if linked else self.doubt)(Reason("program.runs_code", why=found), "gate.inline-code")
                break  # one reason is enough: otherwise every file outside the workspace would add one
        for file in files:
            self.scripts.extend(real_paths(file.text, where, self.context) if file.text else [])

    def resolve_directories(self, directories: Sequence[Word]) -> frozenset[str]:
        """The directory after entering these one after the other; empty if unknown."""
        found = self.cwds or frozenset()
        for directory in directories:
            found = frozenset(real_paths(directory.text, found, self.context) if directory.text is not None else ())
        return found

    def check_home_settings(self, *names: str) -> None:
        """Record a doubt if any of these settings files exists in a home that outlives the command: the workspace or /tmp."""
        for directory in (*map(str, self.context.writable), SHARED_HOME):
            for name in names:
                if os.path.lexists(os.path.join(directory, name)):
                    self.doubt_files(Reason("program.settings", file=name))

    def start(self, words: Sequence[Word]) -> None:
        if not words or words[0].text is None:
            self.doubt(Reason("program.unknown_program"))
        else:
            self.starts.append(tuple(words))


def why_outside_workspace(target: Word, cwds: frozenset[str] | None, context: ExecContext) -> Reason | None:
    """Why a path may be outside the workspace; None if it is certainly inside."""
    shown = _quote_target(target)
    if target.text is None and not target.local:
        return Reason("path.uncertain", path=shown)
    path = _known_prefix(target)
    if path.startswith("~"):
        return Reason("path.outside", path=shown)
    if all(is_inside(real, context.writable) for real in real_paths(path, cwds, context) or [""]):
        return None
    return Reason("path.unknown", path=shown)


def why_write_doubtful(target: Word, cwds: frozenset[str] | None, context: ExecContext) -> Reason | None:
    """Why writing there needs approval; None if it certainly stays in the workspace."""
    if target.text in HARMLESS_FILES:
        return None
    if found := why_outside_workspace(target, cwds, context):
        return found
    shown = _quote_target(target)
    for real in real_paths(_known_prefix(target), cwds, context):
        if ".git" in real.split("/"):
            return Reason("path.git", path=shown)
        if os.path.basename(real) in SETTINGS_FILES:
            return Reason("path.settings", path=shown)
    return None


def follows_link(target: Word, cwds: frozenset[str] | None, context: ExecContext) -> bool:
    """Whether a symbolic link makes the path lead elsewhere than it says."""
    path = _known_prefix(target)
    written = [to_host_path(path, context)] if path.startswith("/") else [os.path.join(cwd, path) for cwd in cwds or ()]
    return any(os.path.realpath(each) != os.path.normpath(each) for each in written)


def _quote_target(target: Word) -> str | Reason:
    return target.text if target.text is not None else Reason("path.with", part=target.shown)


def _known_prefix(target: Word) -> str:
    """For a path with an unknown part, the directory before that part."""
    return target.text if target.text is not None else os.path.dirname(target.lead) or "."


def real_paths(path: str, cwds: frozenset[str] | None, context: ExecContext) -> list[str]:
    """The resolved paths a literal path leads to; empty if the starting directory is unknown."""
    if path.startswith("/"):
        return [os.path.realpath(to_host_path(path, context))]
    return [os.path.realpath(os.path.join(cwd, path)) for cwd in cwds or ()]
