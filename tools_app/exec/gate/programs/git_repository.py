"""Find programs that a git repository's settings and hooks start. Only reads files.

Anyone who can write to the workspace can add such programs.
"""

import os
import re
from collections.abc import Iterator

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons

register_reasons(
    {
        "git.settings_unreadable": gettext_noop("the repository's settings can't be read"),
        "git.settings": gettext_noop("the repository's settings name another program or file ({setting})"),
        "git.hooks": gettext_noop("the repository has hooks that would run ({hooks})"),
        "git.submodules": gettext_noop("the repository contains submodules, whose settings git would use"),
    }
)

MAX_CONFIG_BYTES = 256 * 1024
MAX_INDEX_BYTES = 64 * 1024 * 1024  # about half a million files
# Section and key, in lower case, that name a program, a transport, another work tree, or a file with more settings.
PROGRAM_SETTINGS = re.compile(
    r"""core\.(fsmonitor|pager|editor|sshcommand|askpass|gitproxy|hookspath|alternaterefscommand|worktree)|sequence\.editor
    |gc\.recentobjectshook|hook\..*|gpg(\..*)?\.(program|defaultkeycommand)|pager\..*|include(if)?(\..*)?\.path|alias\..*
    |credential(\..*)?\.helper|diff\.external|diff\..*\.(command|textconv)|merge\..*\.driver|filter\..*\.(clean|smudge|process)
    |interactive\.difffilter|remote\..*\.(uploadpack|receivepack|vcs)|uploadpack\.packobjectshook|protocol(\..*)?\.allow
    |tar\..*\.command|submodule\..*\.update|url\..*\.(insteadof|pushinsteadof)|init\.templatedir|extensions\.partialclone
    |trailer\..*\.(command|cmd)|(diff|merge|gui)tool\..*\.(cmd|path)|(browser|man)\..*|(web|help)\.browser
    |sendemail(\..*)?\..*(cmd|server)""",
    re.VERBOSE,
)
# These hooks run for nearly every subcommand, because git refreshes the index, writes references and cleans up along the way.
FREQUENT_HOOKS = frozenset({"post-index-change", "reference-transaction", "pre-auto-gc"})
GITLINK = (0o160000).to_bytes(4)  # the mode of an index entry that is another repository
SECTION_PATTERN = re.compile(r'\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')
KEY_PATTERN = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(=|$|[#;])")
# Continued lines, and characters that end a line for Python but not for git: we could only guess sections and values.
UNCLEAR_PATTERN = re.compile("\\\\\n|\r|[\x00\v\f\x1c-\x1e\x85\u2028\u2029]")


def find_started_programs(cwd: str, *, hooks: bool, submodules: bool) -> Reason | None:
    """Describe what would be started besides git itself; None if nothing would, or there is no repository.

    `hooks`: whether any hook may run, not only those that nearly always do. `submodules`: whether git looks into them.
    """
    try:
        for at, directory in _git_directories(cwd):
            if found := _find_in_repository(at, directory, hooks=hooks, submodules=submodules):
                return found
    except (OSError, UnicodeDecodeError, ValueError):
        return Reason("git.settings_unreadable")
    return None


def _find_in_repository(at: str, directory: str, *, hooks: bool, submodules: bool) -> Reason | None:
    common = _common_directory(directory)
    for path in {directory, common}:
        for name in ("config", "config.worktree"):
            if found := _find_configured_program(os.path.join(path, name)):
                return Reason("git.settings", setting=found)
    if names := _list_hooks(os.path.join(common, "hooks"), every=hooks):
        return Reason("git.hooks", hooks=", ".join(names))
    if submodules and _has_submodules(at, directory, common):
        return Reason("git.submodules")
    return None


def _git_directories(cwd: str) -> Iterator[tuple[str, str]]:
    """Yield candidate repositories and their git directories, all the way up: git skips incomplete ones by its own criteria."""
    at = os.path.realpath(cwd)
    while True:
        found = os.path.join(at, ".git")
        if os.path.isdir(found):
            yield at, found
        elif os.path.isfile(found):
            with open(found, encoding="utf-8") as file:
                yield at, os.path.realpath(os.path.join(at, file.read(4096).removeprefix("gitdir:").strip()))
        if all(os.path.exists(os.path.join(at, name)) for name in ("HEAD", "objects", "refs")):
            yield at, at  # a bare repository, which git also finds
        if at == os.path.dirname(at):
            return
        at = os.path.dirname(at)


def _has_submodules(at: str, directory: str, common: str) -> bool:
    if os.path.lexists(os.path.join(at, ".gitmodules")) or os.path.isdir(os.path.join(common, "modules")):
        return True
    # Even without .gitmodules, the index can contain a repository. A file size of exactly 56 KiB has the same bytes, so such a file
    # needs approval too.
    for name in os.listdir(directory) if os.path.isdir(directory) else ():
        if name == "index" or name.startswith("sharedindex."):
            with open(os.path.join(directory, name), "rb") as file:
                content = file.read(MAX_INDEX_BYTES + 1)
            if len(content) > MAX_INDEX_BYTES:
                raise ValueError("too large")
            if GITLINK in content:
                return True
    return False


def _common_directory(directory: str) -> str:
    try:
        with open(os.path.join(directory, "commondir"), encoding="utf-8") as file:
            return os.path.realpath(os.path.join(directory, file.read(4096).strip()))
    except FileNotFoundError:
        return directory


def _find_configured_program(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            text = file.read(MAX_CONFIG_BYTES + 1).replace("\r\n", "\n")
    except FileNotFoundError:
        return ""
    if len(text) > MAX_CONFIG_BYTES or UNCLEAR_PATTERN.search(text):
        raise ValueError("too large, or ambiguous")
    section = ""
    for line in text.splitlines():
        rest = line.strip()
        while rest.startswith("["):  # a line can have several; the last one counts
            found = SECTION_PATTERN.match(rest)
            if found is None:
                raise ValueError("not a section")
            section = found[1].lower() + (f".{found[2].lower()}" if found[2] is not None else "")
            rest = rest[found.end() :].strip()
        if key := KEY_PATTERN.match(rest):
            name = f"{section}.{key[1].lower()}"
            helper = key[1].lower().endswith("url") and "::" in rest  # helper::address starts a program of that name
            if helper or PROGRAM_SETTINGS.fullmatch(name):
                return name
    return ""


def _list_hooks(directory: str, *, every: bool) -> list[str]:
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    considered = [name for name in names if (not name.endswith(".sample") if every else name in FREQUENT_HOOKS)]
    return [name for name in considered if os.access(os.path.join(directory, name), os.X_OK)][:3]
