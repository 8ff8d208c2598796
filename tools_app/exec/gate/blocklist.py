"""Commands that no rule and no person can allow: their only use is to destroy the machine or to escape supervision.

Works on parsed commands with quotes resolved, never on the text of the line; also covers commands inside substitutions and those
started by wrappers. Keep the list short: approval handles everything that is merely risky.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.programs.code import INTERPRETERS
from tools_app.exec.gate.programs.invocation import real_paths
from tools_app.exec.gate.programs.registry import SHELLS, WRAPPERS, canonical_name
from tools_app.exec.gate.shell.findings import Redirection, ShellCommand
from tools_app.exec.gate.shell.words import GLOB, HOME, TILDE
from tools_app.exec.gate.types import ExecContext, split_names

register_reasons(
    {
        "gate.destroys-files.delete": gettext_noop(
            "It deletes the root, a system directory, a home directory, or a directory that contains the workspace."
        ),
        "gate.destroys-files.protection": gettext_noop("It disables the protection of the root directory."),
        "gate.destroys-files.move": gettext_noop(
            "It moves a system directory, a home directory, or a directory that contains the workspace."
        ),
        "gate.destroys-files.find": gettext_noop("It deletes everything in a system directory or a home directory."),
        "gate.changes-rights": gettext_noop("It changes the permissions of a whole system directory or home directory."),
        "gate.makes-filesystem": gettext_noop("It creates a file system or a partition table, which erases a disk."),
        "gate.writes-device.command": gettext_noop("It writes to a disk device or to the machine's memory."),
        "gate.writes-device.redirection": gettext_noop("A redirection writes to a disk device or to the kernel."),
        "gate.stops-machine": gettext_noop("It shuts down or restarts the machine."),
        "gate.kills-everything": gettext_noop("It kills every process."),
        "gate.changes-kernel": gettext_noop("It loads code into the kernel."),
        "gate.leaves-sandbox.namespaces": gettext_noop("It enters other namespaces, which escapes the sandbox."),
        "gate.leaves-sandbox.container": gettext_noop("It starts a container with access to the whole machine."),
        "gate.own-guard": gettext_noop("It changes Clawsite's own settings, approvals or accounts. Only people can do that."),
        "gate.runs-download": gettext_noop("{program} would run what {downloader} downloads, which no one has reviewed."),
    }
)

SYSTEM_DIRECTORIES = split_names(
    "/ /bin /boot /dev /etc /home /lib /lib64 /opt /proc /root /run /sbin /srv /sys /usr /var /Users /System"
)
HOME_PATTERN = re.compile(r"~[A-Za-z0-9_-]*/?\*?|/\*|/\.\*|\.\./\*")
RAW_DEVICE_PATTERN = re.compile(
    r"/dev/(sd|hd|vd|xvd|nvme|mmcblk|loop|dm-|md|disk|mapper/|mem|kmem|port|ram).*|/proc/(sysrq-trigger|sys/.*)|/sys/.*"
)
DOWNLOADERS = split_names("curl wget fetch aria2c axel http https lynx w3m ftp nc ncat socat")
CODE_RUNNERS = SHELLS | frozenset(INTERPRETERS) | {"eval", "source", ".", "deno", "bun"}


@dataclass(frozen=True, slots=True)
class CommandWords:
    """The literal words of a command; for a word with expansions, its literal prefix."""

    name: str
    arguments: tuple[str, ...]
    resolve: Callable[[str], list[str]]  # the real paths a path leads to

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
class BlockRule:
    code: str
    names: frozenset[str]  # of the programs it applies to
    matches: Callable[[CommandWords, ExecContext], bool]


def _always(command: CommandWords, context: ExecContext) -> bool:
    return not command.arguments or command.arguments[0] not in ("--version", "--help")


def _hits_protected_path(command: CommandWords, context: ExecContext) -> bool:
    """Whether an operand is the root, a system directory, a home, or a directory that contains the workspace."""
    home = os.path.expanduser("~")
    for operand in command.operands():
        if HOME_PATTERN.fullmatch(operand) or operand in ("$HOME", "$HOME/"):
            return True
        for path in command.resolve(operand.removesuffix("*") or "."):
            above = any(f"{workspace}/".startswith(f"{path}/") and path != str(workspace) for workspace in context.writable)
            if path in SYSTEM_DIRECTORIES or path == home or above:
                return True
    return False


def _moves_protected_path(command: CommandWords, context: ExecContext) -> bool:
    return _hits_protected_path(CommandWords(command.name, tuple(command.operands()[:-1]), command.resolve), context)


def _is_recursive(command: CommandWords, context: ExecContext) -> bool:
    return command.has("rR", "--recursive") and _hits_protected_path(command, context)


def _disables_preserve_root(command: CommandWords, context: ExecContext) -> bool:
    return any(argument.startswith("--no-preserve-r") for argument in command.arguments)


def _writes_to_device(command: CommandWords, context: ExecContext) -> bool:
    return any(
        RAW_DEVICE_PATTERN.fullmatch(argument.removeprefix("of="))
        for argument in command.arguments
        if not argument.startswith("if=")
    )


def _deletes_files(command: CommandWords, context: ExecContext) -> bool:
    return (
        any(word in command.arguments for word in ("-delete", "-exec", "-execdir"))
        and ("-delete" in command.arguments or "rm" in map(os.path.basename, command.arguments))
        and _hits_protected_path(CommandWords(command.name, command.arguments[:1], command.resolve), context)
    )


BLOCK_RULES: tuple[BlockRule, ...] = (
    BlockRule(
        "gate.destroys-files.delete",
        split_names("rm"),
        _is_recursive,
    ),
    BlockRule(
        "gate.destroys-files.protection",
        split_names("rm chmod chown chgrp"),
        _disables_preserve_root,
    ),
    BlockRule(
        "gate.destroys-files.move",
        split_names("mv"),
        _moves_protected_path,
    ),
    BlockRule("gate.destroys-files.find", split_names("find gfind"), _deletes_files),
    BlockRule(
        "gate.changes-rights",
        split_names("chmod chown chgrp"),
        _is_recursive,
    ),
    BlockRule(
        "gate.makes-filesystem",
        split_names(
            "mkfs mke2fs mkswap wipefs blkdiscard fdisk sfdisk cfdisk gdisk sgdisk parted cryptsetup lvremove vgremove pvremove"
        ),
        _always,
    ),
    BlockRule(
        "gate.writes-device.command",
        split_names("dd tee cp shred install mv cat"),
        _writes_to_device,
    ),
    BlockRule("gate.stops-machine", split_names("shutdown reboot halt poweroff telinit kexec"), _always),
    BlockRule("gate.stops-machine", split_names("init"), lambda c, p: c.arguments[:1] in (("0",), ("6",))),
    BlockRule(
        "gate.stops-machine",
        split_names("systemctl loginctl"),
        lambda c, p: any(
            word in split_names("poweroff reboot halt kexec rescue emergency soft-reboot") for word in c.operands()[:1]
        ),
    ),
    BlockRule(
        "gate.kills-everything",
        split_names("kill"),
        lambda c, p: "-1" in c.arguments[1:] or c.arguments == ("-1",),
    ),
    BlockRule("gate.kills-everything", split_names("killall5"), _always),
    BlockRule("gate.changes-kernel", split_names("insmod modprobe rmmod"), _always),
    BlockRule("gate.leaves-sandbox.namespaces", split_names("nsenter"), _always),
    BlockRule(
        "gate.leaves-sandbox.container",
        split_names("docker podman nerdctl"),
        lambda c, p: "--privileged" in c.arguments or any(re.match(r"/(:|$)|.*docker\.sock", word) for word in c.arguments),
    ),
    BlockRule(
        "gate.own-guard",
        split_names("claw"),
        lambda c, p: bool(c.operands()) and c.operands()[0] not in split_names("status doctor logs version help exec"),
    ),
)


def find_blocked(commands: Sequence[ShellCommand], writes: Sequence[Redirection], context: ExecContext) -> Iterator[Reason]:
    for command in commands:
        sources = {each.name.text or "" for each in command.upstream} | command.nested_names
        downloaders = {canonical_name(os.path.basename(name)) for name in sources} & DOWNLOADERS
        for candidate in _possible_commands(command, context):
            for rule in BLOCK_RULES:
                matches = candidate.name in rule.names or (candidate.name.startswith("mkfs.") and "mkfs" in rule.names)
                if matches and rule.matches(candidate, context):
                    yield Reason(rule.code)
            if downloaders and canonical_name(candidate.name) in CODE_RUNNERS and _reads_code(candidate, command):
                yield Reason("gate.runs-download", downloader=min(downloaders), program=candidate.name)
    for write in writes:
        if write.target.text and any(
            RAW_DEVICE_PATTERN.fullmatch(path) for path in (write.target.text, *real_paths(write.target.text, write.cwds, context))
        ):
            yield Reason("gate.writes-device.redirection")


def _reads_code(command_words: CommandWords, command: ShellCommand) -> bool:
    """Whether it reads code from its input or from a substitution in its arguments. With a named script, input is only data."""
    if command.nested_names & DOWNLOADERS:
        return True
    return (
        not command_words.operands()
        or command_words.operands()[0] in ("-", "/dev/stdin")
        or (canonical_name(command_words.name) in SHELLS and command_words.has("s"))
    )


def _possible_commands(command: ShellCommand, context: ExecContext) -> Iterator[CommandWords]:
    """Yield the command and, if it is a wrapper, what it could start: any of its words may be the program."""

    def resolve(path: str) -> list[str]:
        return real_paths(path, command.cwds or frozenset({str(context.cwd)}), context)

    literal = [
        word.text if word.text is not None else _literal_prefix(word.lead, word.dynamic)
        for word in (command.name, *command.arguments)
    ]
    first = os.path.basename(literal[0])
    is_wrapper = canonical_name(first) in WRAPPERS or first in ("command", "exec", "builtin", "busybox", "toybox", "eval")
    for at in range(len(literal) if is_wrapper else 1):
        yield CommandWords(os.path.basename(literal[at]), tuple(literal[at + 1 :]), resolve)


def _literal_prefix(lead: str, dynamic: Reason | None) -> str:
    """Return enough of an expanded word to tell what it refers to."""
    if dynamic == TILDE:
        return "~"
    if dynamic == HOME:
        return "$HOME"
    return f"{lead}*" if dynamic == GLOB else lead
