"""The environment of a command: built from a list of names, never the server's own with something taken out.

What a variable means to some program nobody can list; what a command needs to run one can.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

# Fixed, so that what the gate resolved is what the shell finds. Never a directory that an agent could write.
SEARCH_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")

COPIED_VARIABLES = ("LANG", "LANGUAGE", "TZ")  # of the server, where set; and LC_*
FIXED_VARIABLES = {
    "PATH": ":".join(SEARCH_PATH),
    "NO_COLOR": "1",  # the reader is a model, or a page that shows plain text
    "TERM": "dumb",
    # Nobody sits there to answer or to page on.
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",  # in a sandbox /etc/gitconfig is closed, and git gives up over it
    "DEBIAN_FRONTEND": "noninteractive",
    # The home may be a directory that the agent writes, and settings there can name programs. The argument rules count on there
    # being none. curl and rsync cannot be told so: their rules look for the files.
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "PYTHONNOUSERSITE": "1",
    "PIP_CONFIG_FILE": "/dev/null",
    "NPM_CONFIG_USERCONFIG": "/dev/null",
    "YARN_IGNORE_PATH": "1",
    "WGETRC": "/dev/null",
    "GOENV": "off",
    "CURL_HOME": "/nonexistent",  # enough for curl before 7.73; later ones look in the home next
    "DOCKER_CONFIG": "/nonexistent",
}
TERMINAL_VARIABLES = {"TERM": "xterm-256color"}


def build_environment(home: Path, *, pty: bool = False, server: Mapping[str, str] = os.environ) -> dict[str, str]:
    """All that a command gets. `server` is where the language and the time zone are looked up, nothing else."""
    built = {
        name: value for name, value in server.items() if (name in COPIED_VARIABLES or name.startswith("LC_")) and _is_plain(value)
    }
    built.setdefault("LANG", "C.UTF-8")
    built |= FIXED_VARIABLES | (TERMINAL_VARIABLES if pty else {})
    built["HOME"] = str(home)
    built["USER"] = built["LOGNAME"] = "agent"
    return built


def hash_environment(env: Mapping[str, str]) -> str:
    """For the plan that somebody approves: another environment is another command."""
    return hashlib.sha256(json.dumps(sorted(env.items())).encode()).hexdigest()


def find_program(name: str) -> str | None:
    """Where a program of the system is, by the fixed path; None where it is not."""
    for directory in SEARCH_PATH:
        path = f"{directory}/{name}"
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _is_plain(value: str) -> bool:
    """A language or zone is a short name. TZ may be a path, and has been a way into old libraries."""
    return len(value) <= 64 and ".." not in value and not value.startswith((":", "/")) and value.isprintable()
