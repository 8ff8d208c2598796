"""Which parts of the host a command sees, at every level that shuts it in: programs and libraries, and little of /etc.

Written as what is shown. /etc has passwords and keys of other services in it, and when the server runs as root a command's files
are opened as root, so nothing there is shown by default.
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
    """Those that are there. A link is named as it is: `resolv.conf` often leads to /run."""
    names = ETC_ENTRIES + (NETWORK_ETC_ENTRIES if network else ())
    return [path for name in names for path in sorted(glob(f"/etc/{name}")) if os.path.exists(path)]


def list_visible_system(*, network: bool) -> list[Path]:
    """All of that, by real paths."""
    return [Path(os.path.realpath(path)) for path in (USR, *IN_USR, *list_visible_etc(network=network))]


def check_sandbox(sandbox: Sandbox) -> None:
    """Refuse a workspace that would show what must not be shown, or let be written what must not be."""
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
        # A mount over a file is gone when the server replaces the file, and nothing can be mounted over one that is still to come.
        if not path.is_dir() or not find_innermost(path, mounted):
            words = _("%(path)s is visible to commands and can’t be hidden; move it")
            raise SandboxUnavailable(words % {"path": path})


def list_visible_directories(sandbox: Sandbox) -> dict[Path, bool]:
    """The directories of the agent that a command sees, and whether it may write there."""
    shown = {sandbox.private_home: True} if sandbox.private_home else {}
    if sandbox.access != "none":
        shown[sandbox.workspace] = sandbox.access == "rw"
    return shown


def list_hidden_inside(sandbox: Sandbox) -> list[Path]:
    """What is hidden and yet lies inside what is shown. Landlock cannot take it out again, mounts can."""
    shown = [*list_visible_directories(sandbox), *list_visible_system(network=sandbox.network)]
    real = [Path(os.path.realpath(path)) for path in sandbox.hidden]
    return [path for path in real if find_innermost(path.parent, (*shown, *real)) in shown]


def list_read_only_inside(sandbox: Sandbox) -> list[Path]:
    """What may not be written and yet lies inside a directory that may. The same holds for it."""
    shown = list_visible_directories(sandbox)
    places = (*shown, *sandbox.hidden, *sandbox.unwritable)
    return [path for path in sandbox.unwritable if shown.get(find_innermost(path.parent, places) or path)]


def find_innermost(path: Path, places: Iterable[Path]) -> Path | None:
    """That of the places in which the path lies most closely; it may be one itself."""
    return max((place for place in places if path.is_relative_to(place)), key=lambda place: len(place.parts), default=None)
