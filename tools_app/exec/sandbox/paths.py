"""The parts of the host that a sandboxed command sees: programs, libraries and a small part of /etc.

This is an allowlist. /etc contains passwords and keys of other services, and if the server runs as root, a command opens files as
root, so nothing there is visible by default.
"""

import os
from collections.abc import Iterable
from glob import glob
from pathlib import Path

from django.utils.translation import gettext as _

from tools_app.exec.sandbox.types import Sandbox, SandboxUnavailable

USR = "/usr"
IN_USR = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")  # links into /usr on most systems, directories on some
ETC_ENTRIES = (
    "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl/certs", "ssl/openssl.cnf", "ca-certificates", "pki/tls/certs",
    "pki/ca-trust", "crypto-policies", "passwd", "group", "nsswitch.conf", "hosts", "host.conf", "gai.conf", "services",
    "protocols", "localtime", "timezone", "locale.alias", "mime.types", "magic", "terminfo", "inputrc", "os-release",
    "debian_version", "fonts", "java-*", "perl", "python3*", "papersize",
)  # fmt: skip
NETWORK_ETC_ENTRIES = ("resolv.conf",)


def list_visible_etc(*, network: bool) -> list[str]:
    """Return the listed paths that exist. Links are not resolved: `resolv.conf` often points to /run."""
    names = ETC_ENTRIES + (NETWORK_ETC_ENTRIES if network else ())
    return [path for name in names for path in sorted(glob(f"/etc/{name}")) if os.path.exists(path)]


def list_visible_system(*, network: bool) -> list[Path]:
    """All visible system paths, resolved."""
    return [Path(os.path.realpath(path)) for path in (USR, *IN_USR, *list_visible_etc(network=network))]


def check_sandbox(sandbox: Sandbox) -> None:
    """Reject a workspace that would expose hidden files or make protected files writable."""
    for path in (sandbox.workspace, sandbox.private_home):
        if path is None:
            continue
        if not path.is_absolute() or not path.is_dir() or Path(os.path.realpath(path)) != path:
            raise SandboxUnavailable(_("%(path)s is not the real path of a directory") % {"path": path})
        if path in sandbox.hidden:
            raise SandboxUnavailable(_("the workspace must not be the state directory %(path)s itself") % {"path": path})
        if any(Path(system).is_relative_to(path) for system in (USR, "/etc", "/proc", "/dev", "/tmp")):  # noqa: S108
            raise SandboxUnavailable(_("%(path)s contains system directories and can’t be a workspace") % {"path": path})
        if find_innermost(path, (*sandbox.hidden, *sandbox.unwritable)) in sandbox.unwritable:
            raise SandboxUnavailable(_("%(path)s is part of this server’s code and can’t be a workspace") % {"path": path})
    mounted = (*list_visible_directories(sandbox), *(Path(os.path.realpath(path)) for path in (USR, *IN_USR)))
    for path in list_hidden_inside(sandbox):
        # A mount over a file is lost when the server replaces the file, and a file that doesn't exist yet can't be mounted over.
        if not path.is_dir() or not find_innermost(path, mounted):
            message = _("%(path)s is visible to commands and can’t be hidden; move it")
            raise SandboxUnavailable(message % {"path": path})


def list_visible_directories(sandbox: Sandbox) -> dict[Path, bool]:
    """The agent's directories that a command sees, and whether it may write there."""
    shown = {sandbox.private_home: True} if sandbox.private_home else {}
    if sandbox.access != "none":
        shown[sandbox.workspace] = sandbox.access == "rw"
    return shown


def list_hidden_inside(sandbox: Sandbox) -> list[Path]:
    """Hidden paths inside visible directories. Mounts can hide them; landlock can't."""
    shown = [*list_visible_directories(sandbox), *list_visible_system(network=sandbox.network)]
    real = [Path(os.path.realpath(path)) for path in sandbox.hidden]
    return [path for path in real if find_innermost(path.parent, (*shown, *real)) in shown]


def list_read_only_inside(sandbox: Sandbox) -> list[Path]:
    """Read-only paths inside writable directories. Mounts can protect them; landlock can't."""
    shown = list_visible_directories(sandbox)
    directories = (*shown, *sandbox.hidden, *sandbox.unwritable)
    return [path for path in sandbox.unwritable if shown.get(find_innermost(path.parent, directories) or path)]


def find_innermost(path: Path, directories: Iterable[Path]) -> Path | None:
    """The innermost of the directories that contains the path; it may be the path itself."""
    return max((each for each in directories if path.is_relative_to(each)), key=lambda each: len(each.parts), default=None)
