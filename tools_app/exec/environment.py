"""The environment of a command: built from a list of names, never a filtered copy of the server's environment.

No one knows what every variable means to every program, but what a command needs can be listed.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

# Fixed, so that the shell finds the same files as the gate. Never a directory that an agent can write to.
SEARCH_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")

COPIED_VARIABLES = ("LANG", "LANGUAGE", "TZ")  # copied from the server if set; LC_* too
FIXED_VARIABLES = {
    "PATH": ":".join(SEARCH_PATH),
    "NO_COLOR": "1",  # the reader is a model, or a page that shows plain text
    "TERM": "dumb",
    # No one can answer prompts or use a pager.
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",  # in a sandbox /etc/gitconfig is unreadable, and git then fails
    "DEBIAN_FRONTEND": "noninteractive",
    # The home may be a directory the agent can write to, and settings there can name programs. The argument rules rely on these
    # files being ignored. curl and rsync have no such option: their rules check for the files.
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "PYTHONNOUSERSITE": "1",
    "PIP_CONFIG_FILE": "/dev/null",
    "NPM_CONFIG_USERCONFIG": "/dev/null",
    "YARN_IGNORE_PATH": "1",
    "WGETRC": "/dev/null",
    "GOENV": "off",
    "CURL_HOME": "/nonexistent",  # enough for curl before 7.73; later versions also look in the home
    "DOCKER_CONFIG": "/nonexistent",
}
TERMINAL_VARIABLES = {"TERM": "xterm-256color"}


def build_environment(home: Path, *, pty: bool = False, server: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Build a command's whole environment. `server` is only read for the language and time zone."""
    env = {
        name: value for name, value in server.items() if (name in COPIED_VARIABLES or name.startswith("LC_")) and _is_plain(value)
    }
    env.setdefault("LANG", "C.UTF-8")
    env |= FIXED_VARIABLES | (TERMINAL_VARIABLES if pty else {})
    env["HOME"] = str(home)
    env["USER"] = env["LOGNAME"] = "agent"
    return env


def hash_environment(env: Mapping[str, str]) -> str:
    """Hash for the approved plan: a command in a different environment is a different command."""
    return hashlib.sha256(json.dumps(sorted(env.items())).encode()).hexdigest()


def find_program(name: str) -> str | None:
    """Return the path of a system program on the fixed PATH, or None."""
    for directory in SEARCH_PATH:
        path = f"{directory}/{name}"
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _is_plain(value: str) -> bool:
    """Accept only short names. TZ may be a path, and has been an attack vector in old libraries."""
    return len(value) <= 64 and ".." not in value and not value.startswith((":", "/")) and value.isprintable()
