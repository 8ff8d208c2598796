"""Secrets of MCP servers stay in the worker's environment. A row names them, `${NAME}`, and they are put in at the last moment.

Nothing here is stored or shown; a text that looks like a secret itself is refused before it can be.
"""

import os
import re
from collections.abc import Iterable, Mapping

from clawsite.infra.observability.redact import REPLACEMENT, redact

REFERENCE_PATTERN = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET_NAME_PATTERN = re.compile(
    r"(?:(?:api|access|private)[_-]?key|authorization|cookie|credentials?|passw(?:or)?d|passphrase|secret|token)$", re.IGNORECASE
)
# Ours. An MCP server that got one of these could do whatever Clawsite can.
FORBIDDEN_VARIABLES = re.compile(r"CLAWSITE_.*|DATABASE_URL|REDIS_URL")
# What a program needs to run at all; every other variable of the worker stays with the worker.
INHERITED_VARIABLES = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)


class MissingVariable(Exception):
    """A text names a variable that the worker does not have."""


def looks_secret(name: str, value: str) -> bool:
    """Whether a value, less its references, is a secret in plain sight: by its own look or by the name it stands under."""
    rest = REFERENCE_PATTERN.sub("", value).strip()
    if redact(f"{name}={rest}") != f"{name}={rest}" or redact(rest) != rest:
        return True
    return bool(SECRET_NAME_PATTERN.search(name)) and rest.lower() not in ("", "bearer", "basic", "token")


def find_forbidden(text: str) -> str:
    """The first reference to a variable of ours; empty if there is none."""
    return next((name for name in REFERENCE_PATTERN.findall(text) if FORBIDDEN_VARIABLES.fullmatch(name.upper())), "")


class SecretResolver:
    """Puts values in place of references, and remembers them, so that they can be kept out of logs, errors and results."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self.secrets: set[str] = set()

    def text(self, text: str) -> str:
        return REFERENCE_PATTERN.sub(lambda match: self._value(match[1]), text)

    def texts(self, texts: Iterable[str]) -> list[str]:
        return [self.text(each) for each in texts]

    def mapping(self, values: Mapping[str, str]) -> dict[str, str]:
        return {name: self.text(value) for name, value in values.items()}

    def redacted(self, text: str) -> str:
        """For people and logs: also without whatever looks like a secret."""
        return redact(self.without(text))

    def without(self, text: str) -> str:
        """For results: without these values. The longest first, because one may contain another."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, REPLACEMENT)
        return text

    def _value(self, name: str) -> str:
        value = "" if FORBIDDEN_VARIABLES.fullmatch(name.upper()) else self._environ.get(name, "")
        if not value:
            raise MissingVariable(f"the worker has no environment variable {name}")
        if len(value) >= 6:  # a shorter one would blank ordinary words
            self.secrets.add(value)
        return value


def inherited_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    return {name: environ[name] for name in INHERITED_VARIABLES if name in environ}
