"""What is harmless alone and not together with the rest of the line. Looks at the names of files, starts nothing."""

import os
from collections.abc import Iterable, Sequence

from tools_app.exec.gate.programs.invocation import HARMLESS_FILES, Call, real_paths
from tools_app.exec.gate.shell.findings import Command, Walked
from tools_app.exec.gate.types import Reason

Started = tuple[Command, Call]  # a simple command, and one start of a program that it leads to
LOG = ".log"  # nobody runs it unless the line names it as a script


def together(walked: Walked, started: Sequence[Started]) -> Iterable[Reason]:
    for command, call in started:
        if call.listed:
            yield from _options_by_glob(call, walked, [other for _, other in started if other is not call])
        if call.runs_code:
            yield from _code_of_the_line(command, call, walked, started)


def _options_by_glob(call: Call, walked: Walked, others: Sequence[Call]) -> Iterable[Reason]:
    others = [other for other in others if not other.reads_only]
    if others or any(os.path.basename(write.target.text or "").startswith("-") for write in walked.writes):
        yield Reason("glob", f"{call.name}: a glob may match a name that begins with a dash and is made by this line; write ./*.")
    elif _dashed_names(call):
        yield Reason("glob", f"{call.name}: a file here has a name that begins with a dash, which would be an option; write ./*.")


def _dashed_names(call: Call) -> bool:
    if call.cwds is None:
        return True
    try:
        return any(entry.startswith("-") for cwd in call.cwds for entry in os.listdir(cwd))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _code_of_the_line(command: Command, call: Call, walked: Walked, started: Sequence[Started]) -> Iterable[Reason]:
    """It runs code of the workspace, and the line puts content there. Which files it reads is for the code to say, so any may be
    one of them; only its own output, said once, and logs are not."""
    written = [
        (write.target.text or "", write.cwds, write.command is command and command.once)
        for write in walked.writes
        if write.target.text not in HARMLESS_FILES
    ]
    for other_command, other in started:
        own = other is call or (other.name == "tee" and _writes_down(other_command, command))
        written += [(path, other.cwds, own) for path in other.brings if path not in HARMLESS_FILES]
    for path, cwds, own in written:
        made = real_paths(path, cwds, call.place) if path else []
        named = any(script == each or script.startswith(f"{each}/") for script in call.scripts for each in made)
        if named or not (own or path.endswith(LOG)):
            what = f"{path} in the workspace" if path else "files of the workspace"
            yield Reason("inline-code", f"{call.name}: it runs code of the workspace, and the same line writes {what}.")


def _writes_down(tee: Command, command: Command) -> bool:
    """It gets the output of this command and of no other one: like a redirection, with a copy."""
    return tee.once and command.once and bool(tee.upstream) and all(each is command for each in tee.upstream)
