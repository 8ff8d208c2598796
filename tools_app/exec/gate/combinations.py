"""Find parts of a line that are harmless alone but not in combination. Reads directories, but starts no programs."""

import os
from collections.abc import Iterable, Sequence

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.programs.invocation import HARMLESS_FILES, ProgramCall, real_paths
from tools_app.exec.gate.shell.findings import ShellCommand, WalkResult

StartedProgram = tuple[ShellCommand, ProgramCall]  # a simple command, and one program it starts
register_reasons(
    {
        "gate.glob.written": gettext_noop(
            "{program}: a glob could match a file created by this line whose name starts with a dash; write ./* instead."
        ),
        "gate.glob.existing": gettext_noop(
            "{program}: a file here has a name that starts with a dash and would be read as an option; write ./* instead."
        ),
        "combination.writes_file": gettext_noop("it runs code from the workspace, and the same line writes {path} there"),
        "combination.writes_files": gettext_noop("it runs code from the workspace, and the same line writes files there"),
    }
)

LOG_SUFFIX = ".log"  # not executed unless the line names it as a script


def find_combined_doubts(walked: WalkResult, started: Sequence[StartedProgram]) -> Iterable[Reason]:
    for command, call in started:
        if call.listed:
            yield from _find_glob_options(call, walked, [other for _, other in started if other is not call])
        if call.runs_code:
            yield from _find_written_code(command, call, walked, started)


def _find_glob_options(call: ProgramCall, walked: WalkResult, others: Sequence[ProgramCall]) -> Iterable[Reason]:
    others = [other for other in others if not other.reads_only]
    if others or any(os.path.basename(write.target.text or "").startswith("-") for write in walked.writes):
        yield Reason("gate.glob.written", program=call.name)
    elif _has_dashed_names(call):
        yield Reason("gate.glob.existing", program=call.name)


def _has_dashed_names(call: ProgramCall) -> bool:
    if call.cwds is None:
        return True
    try:
        return any(entry.startswith("-") for cwd in call.cwds for entry in os.listdir(cwd))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _find_written_code(
    command: ShellCommand, call: ProgramCall, walked: WalkResult, started: Sequence[StartedProgram]
) -> Iterable[Reason]:
    """Find files that the line writes and the call might run as code of the workspace. Only the code determines what it reads, so
    any written file counts, except the call's own output (outside loops) and logs."""
    written = [
        (write.target.text or "", write.cwds, write.command is command and command.once)
        for write in walked.writes
        if write.target.text not in HARMLESS_FILES
    ]
    for other_command, other in started:
        own = other is call or (other.name == "tee" and _is_tee_of(other_command, command))
        written += [(path, other.cwds, own) for path in other.content_targets if path not in HARMLESS_FILES]
    for path, cwds, own in written:
        paths = real_paths(path, cwds, call.context) if path else []
        named = any(script == each or script.startswith(f"{each}/") for script in call.scripts for each in paths)
        if named or not (own or path.endswith(LOG_SUFFIX)):
            finding = Reason("combination.writes_file", path=path) if path else Reason("combination.writes_files")
            yield Reason("gate.inline-code", program=call.name, finding=finding)


def _is_tee_of(tee: ShellCommand, command: ShellCommand) -> bool:
    """Whether this tee reads only the output of this command, and so works like a redirection."""
    return tee.once and command.once and bool(tee.upstream) and all(each is command for each in tee.upstream)
