"""What no rule and no person can allow from here: commands whose only use is to ruin the machine or to get out of the guard.

Works on commands as parsed, with their words after quotes are gone, never on the text of the line; also inside substitutions, and
behind programs that start others. Keep it short: a question is the answer to everything that is merely risky.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tools_app.exec.gate.programs.code import INTERPRETERS
from tools_app.exec.gate.programs.invocation import real_paths
from tools_app.exec.gate.programs.registry import SHELLS, WRAPPERS, known_as
from tools_app.exec.gate.shell.findings import Command, Redirection
from tools_app.exec.gate.types import Place, Reason, names

SYSTEM = names("/ /bin /boot /dev /etc /home /lib /lib64 /opt /proc /root /run /sbin /srv /sys /usr /var /Users /System")
HOME_WORDS = re.compile(r"~[A-Za-z0-9_-]*/?\*?|/\*|/\.\*|\.\./\*")
RAW_DEVICE = re.compile(
    r"/dev/(sd|hd|vd|xvd|nvme|mmcblk|loop|dm-|md|disk|mapper/|mem|kmem|port|ram).*|/proc/(sysrq-trigger|sys/.*)|/sys/.*"
)
DOWNLOADERS = names("curl wget fetch aria2c axel http https lynx w3m ftp nc ncat socat")
RUNS_TEXT = SHELLS | frozenset(INTERPRETERS) | {"eval", "source", ".", "deno", "bun"}


@dataclass(frozen=True, slots=True)
class Words:
    """A command with everything that is literal about it; what is not known is its spelling's literal beginning."""

    name: str
    arguments: tuple[str, ...]
    places: Callable[[str], list[str]]  # where a path leads

    def has(self, letters: str, *long: str) -> bool:
        for argument in self.arguments:
            if argument.startswith("--"):
                if argument in long:
                    return True
            elif argument.startswith("-") and any(letter in argument[1:] for letter in letters):
                return True
        return False

    def operands(self) -> list[str]:
        return [argument for argument in self.arguments if not argument.startswith("-")]


@dataclass(frozen=True, slots=True)
class Danger:
    code: str
    words: str
    names: frozenset[str]  # of the programs; empty: any
    when: Callable[[Words, Place], bool]


def _always(command: Words, place: Place) -> bool:
    return not command.arguments or command.arguments[0] not in ("--version", "--help")


def _hits_something_dear(command: Words, place: Place) -> bool:
    """The root, a directory of the system, a home, or a directory that holds the workspace."""
    home = os.path.expanduser("~")
    for operand in command.operands():
        if HOME_WORDS.fullmatch(operand) or operand in ("$HOME", "$HOME/"):
            return True
        for path in command.places(operand.removesuffix("*") or "."):
            above = any(f"{workspace}/".startswith(f"{path}/") and path != str(workspace) for workspace in place.writable)
            if path in SYSTEM or path == home or above:
                return True
    return False


def _moves_something_dear(command: Words, place: Place) -> bool:
    return _hits_something_dear(Words(command.name, tuple(command.operands()[:-1]), command.places), place)


def _recursively(command: Words, place: Place) -> bool:
    return command.has("rR", "--recursive") and _hits_something_dear(command, place)


def _no_preserve_root(command: Words, place: Place) -> bool:
    return any(argument.startswith("--no-preserve-r") for argument in command.arguments)


def _onto_a_device(command: Words, place: Place) -> bool:
    return any(
        RAW_DEVICE.fullmatch(argument.removeprefix("of=")) for argument in command.arguments if not argument.startswith("if=")
    )


def _deletes(command: Words, place: Place) -> bool:
    return (
        any(word in command.arguments for word in ("-delete", "-exec", "-execdir"))
        and ("-delete" in command.arguments or "rm" in map(os.path.basename, command.arguments))
        and _hits_something_dear(Words(command.name, command.arguments[:1], command.places), place)
    )


DANGERS: tuple[Danger, ...] = (
    Danger(
        "destroys-files",
        "It deletes the root, a system directory, a home, or what holds the workspace.",
        names("rm"),
        _recursively,
    ),
    Danger(
        "destroys-files", "It switches off the protection of the root directory.", names("rm chmod chown chgrp"), _no_preserve_root
    ),
    Danger(
        "destroys-files", "It moves a system directory, a home, or what holds the workspace.", names("mv"), _moves_something_dear
    ),
    Danger("destroys-files", "It deletes everything below a system directory or a home.", names("find gfind"), _deletes),
    Danger(
        "changes-rights", "It changes the rights of a whole system directory or home.", names("chmod chown chgrp"), _recursively
    ),
    Danger(
        "makes-filesystem",
        "It makes a new file system or partition table, which erases a disk.",
        names("mkfs mke2fs mkswap wipefs blkdiscard fdisk sfdisk cfdisk gdisk sgdisk parted cryptsetup lvremove vgremove pvremove"),
        _always,
    ),
    Danger(
        "writes-device",
        "It writes onto a disk or into the memory of the machine.",
        names("dd tee cp shred install mv cat"),
        _onto_a_device,
    ),
    Danger("stops-machine", "It stops or restarts the machine.", names("shutdown reboot halt poweroff telinit kexec"), _always),
    Danger("stops-machine", "It stops or restarts the machine.", names("init"), lambda c, p: c.arguments[:1] in (("0",), ("6",))),
    Danger(
        "stops-machine",
        "It stops or restarts the machine.",
        names("systemctl loginctl"),
        lambda c, p: any(word in names("poweroff reboot halt kexec rescue emergency soft-reboot") for word in c.operands()[:1]),
    ),
    Danger(
        "kills-everything", "It ends every process.", names("kill"), lambda c, p: "-1" in c.arguments[1:] or c.arguments == ("-1",)
    ),
    Danger("kills-everything", "It ends every process.", names("killall5"), _always),
    Danger("changes-kernel", "It loads code into the kernel.", names("insmod modprobe rmmod"), _always),
    Danger("leaves-sandbox", "It enters other namespaces, which undoes the sandbox.", names("nsenter"), _always),
    Danger(
        "leaves-sandbox",
        "It starts a container that holds the whole machine.",
        names("docker podman nerdctl"),
        lambda c, p: "--privileged" in c.arguments or any(re.match(r"/(:|$)|.*docker\.sock", word) for word in c.arguments),
    ),
    Danger(
        "own-guard",
        "It changes the settings, approvals or accounts of Clawsite itself. Only people do that.",
        names("claw"),
        lambda c, p: bool(c.operands()) and c.operands()[0] not in names("status doctor logs version help exec"),
    ),
)


def dangers(commands: Sequence[Command], writes: Sequence[Redirection], place: Place) -> Iterator[Reason]:
    for command in commands:
        before = {each.name.text or "" for each in command.upstream} | command.within
        feeding = {known_as(os.path.basename(name)) for name in before} & DOWNLOADERS
        for words in _readings(command, place):
            for danger in DANGERS:
                named = words.name in danger.names or (words.name.startswith("mkfs.") and "mkfs" in danger.names)
                if named and danger.when(words, place):
                    yield Reason(danger.code, danger.words)
            if feeding and known_as(words.name) in RUNS_TEXT and _takes_code(words, command):
                yield Reason("runs-download", f"What {min(feeding)} loads from the network is run by {words.name}, unseen.")
    for write in writes:
        if write.target.text and any(
            RAW_DEVICE.fullmatch(path) for path in (write.target.text, *real_paths(write.target.text, write.cwds, place))
        ):
            yield Reason("writes-device", "A redirection writes onto a disk or into the kernel.")


def _takes_code(words: Words, command: Command) -> bool:
    """From its input, or from a substitution in its words. A script with a name only reads data there."""
    if command.within & DOWNLOADERS:
        return True
    return not words.operands() or words.operands()[0] in ("-", "/dev/stdin") or (known_as(words.name) in SHELLS and words.has("s"))


def _readings(command: Command, place: Place) -> Iterator[Words]:
    """The command, and what it would start if it is a program that starts others: any of its words may be the name."""

    def places(path: str) -> list[str]:
        return real_paths(path, command.cwds or frozenset({str(place.cwd)}), place)

    literal = [
        word.text if word.text is not None else _spelling(word.lead, word.dynamic) for word in (command.name, *command.arguments)
    ]
    first = os.path.basename(literal[0])
    starts = known_as(first) in WRAPPERS or first in ("command", "exec", "builtin", "busybox", "toybox", "eval")
    for at in range(len(literal) if starts else 1):
        yield Words(os.path.basename(literal[at]), tuple(literal[at + 1 :]), places)


def _spelling(lead: str, dynamic: str) -> str:
    """Enough of a word that is expanded to see where it points."""
    if dynamic == "a ~ path":
        return "~"
    if dynamic == "the variable $HOME":
        return "$HOME"
    return f"{lead}*" if dynamic == "a glob" else lead
