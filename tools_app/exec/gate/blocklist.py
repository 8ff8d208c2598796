"""Commands that no rule and no person can allow: their only use is to destroy the machine or to escape supervision.

Works on parsed commands with quotes resolved, never on the text of the line; also covers commands inside substitutions and those
started by wrappers. Keep the list short: approval handles everything that is merely risky.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tools_app.exec.gate.programs.code import INTERPRETERS
from tools_app.exec.gate.programs.invocation import real_paths
from tools_app.exec.gate.programs.registry import SHELLS, WRAPPERS, canonical_name
from tools_app.exec.gate.shell.findings import Redirection, ShellCommand
from tools_app.exec.gate.types import ExecContext, GateReason, split_names

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
    reason: str
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
        "destroys-files",
        "It deletes the root, a system directory, a home, or what holds the workspace.",
        split_names("rm"),
        _is_recursive,
    ),
    BlockRule(
        "destroys-files",
        "It switches off the protection of the root directory.",
        split_names("rm chmod chown chgrp"),
        _disables_preserve_root,
    ),
    BlockRule(
        "destroys-files",
        "It moves a system directory, a home, or what holds the workspace.",
        split_names("mv"),
        _moves_protected_path,
    ),
    BlockRule(
        "destroys-files", "It deletes everything below a system directory or a home.", split_names("find gfind"), _deletes_files
    ),
    BlockRule(
        "changes-rights",
        "It changes the rights of a whole system directory or home.",
        split_names("chmod chown chgrp"),
        _is_recursive,
    ),
    BlockRule(
        "makes-filesystem",
        "It makes a new file system or partition table, which erases a disk.",
        split_names(
            "mkfs mke2fs mkswap wipefs blkdiscard fdisk sfdisk cfdisk gdisk sgdisk parted cryptsetup lvremove vgremove pvremove"
        ),
        _always,
    ),
    BlockRule(
        "writes-device",
        "It writes onto a disk or into the memory of the machine.",
        split_names("dd tee cp shred install mv cat"),
        _writes_to_device,
    ),
    BlockRule(
        "stops-machine", "It stops or restarts the machine.", split_names("shutdown reboot halt poweroff telinit kexec"), _always
    ),
    BlockRule(
        "stops-machine", "It stops or restarts the machine.", split_names("init"), lambda c, p: c.arguments[:1] in (("0",), ("6",))
    ),
    BlockRule(
        "stops-machine",
        "It stops or restarts the machine.",
        split_names("systemctl loginctl"),
        lambda c, p: any(
            word in split_names("poweroff reboot halt kexec rescue emergency soft-reboot") for word in c.operands()[:1]
        ),
    ),
    BlockRule(
        "kills-everything",
        "It ends every process.",
        split_names("kill"),
        lambda c, p: "-1" in c.arguments[1:] or c.arguments == ("-1",),
    ),
    BlockRule("kills-everything", "It ends every process.", split_names("killall5"), _always),
    BlockRule("changes-kernel", "It loads code into the kernel.", split_names("insmod modprobe rmmod"), _always),
    BlockRule("leaves-sandbox", "It enters other namespaces, which undoes the sandbox.", split_names("nsenter"), _always),
    BlockRule(
        "leaves-sandbox",
        "It starts a container that holds the whole machine.",
        split_names("docker podman nerdctl"),
        lambda c, p: "--privileged" in c.arguments or any(re.match(r"/(:|$)|.*docker\.sock", word) for word in c.arguments),
    ),
    BlockRule(
        "own-guard",
        "It changes the settings, approvals or accounts of Clawsite itself. Only people do that.",
        split_names("claw"),
        lambda c, p: bool(c.operands()) and c.operands()[0] not in split_names("status doctor logs version help exec"),
    ),
)


def find_blocked(commands: Sequence[ShellCommand], writes: Sequence[Redirection], context: ExecContext) -> Iterator[GateReason]:
    for command in commands:
        sources = {each.name.text or "" for each in command.upstream} | command.nested_names
        downloaders = {canonical_name(os.path.basename(name)) for name in sources} & DOWNLOADERS
        for candidate in _possible_commands(command, context):
            for rule in BLOCK_RULES:
                matches = candidate.name in rule.names or (candidate.name.startswith("mkfs.") and "mkfs" in rule.names)
                if matches and rule.matches(candidate, context):
                    yield GateReason(rule.code, rule.reason)
            if downloaders and canonical_name(candidate.name) in CODE_RUNNERS and _reads_code(candidate, command):
                yield GateReason(
                    "runs-download", f"What {min(downloaders)} loads from the network is run by {candidate.name}, unseen."
                )
    for write in writes:
        if write.target.text and any(
            RAW_DEVICE_PATTERN.fullmatch(path) for path in (write.target.text, *real_paths(write.target.text, write.cwds, context))
        ):
            yield GateReason("writes-device", "A redirection writes onto a disk or into the kernel.")


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


def _literal_prefix(lead: str, dynamic: str) -> str:
    """Return enough of an expanded word to tell what it refers to."""
    if dynamic == "a ~ path":
        return "~"
    if dynamic == "the variable $HOME":
        return "$HOME"
    return f"{lead}*" if dynamic == "a glob" else lead
