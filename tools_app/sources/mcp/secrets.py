"""Resolve the secrets of MCP servers. They stay in the worker's environment; a row refers to them as `${NAME}`.

Nothing here is stored or shown; a value that looks like a secret is rejected before it can be stored.
"""

import os
import re
from collections.abc import Iterable, Mapping

from clawsite.infra.observability.redact import REPLACEMENT, redact

REFERENCE_PATTERN = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET_NAME_PATTERN = re.compile(
    r"(?:(?:api|access|private)[_-]?key|authorization|cookie|credentials?|passw(?:or)?d|passphrase|secret|token)$", re.IGNORECASE
)
# Clawsite's own variables: an MCP server with one of these could do whatever Clawsite can.
FORBIDDEN_VARIABLES = re.compile(r"CLAWSITE_.*|DATABASE_URL|REDIS_URL")
# What a program needs to run; no other variable of the worker is passed on.
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
    """A setting refers to a variable that the worker doesn't have."""


def looks_secret(name: str, value: str) -> bool:
    """Whether a value, without its references, is a literal secret, judged by its format or its name."""
    rest = REFERENCE_PATTERN.sub("", value).strip()
    if redact(f"{name}={rest}") != f"{name}={rest}" or redact(rest) != rest:
        return True
    return bool(SECRET_NAME_PATTERN.search(name)) and rest.lower() not in ("", "bearer", "basic", "token")


def find_forbidden(text: str) -> str:
    """Return the first reference to one of Clawsite's own variables, or an empty string."""
    return next((name for name in REFERENCE_PATTERN.findall(text) if FORBIDDEN_VARIABLES.fullmatch(name.upper())), "")


class SecretResolver:
    """Replaces references with their values, and remembers the values to redact them from logs, errors and results."""

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
        """For people and logs: also redact anything that looks like a secret."""
        return redact(self.without(text))

    def without(self, text: str) -> str:
        """For results: remove only these values. Longest first, because one may contain another."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, REPLACEMENT)
        return text

    def _value(self, name: str) -> str:
        value = "" if FORBIDDEN_VARIABLES.fullmatch(name.upper()) else self._environ.get(name, "")
        if not value:
            raise MissingVariable(f"the worker has no environment variable {name}")
        if len(value) >= 6:  # replacing a shorter one would blank ordinary words
            self.secrets.add(value)
        return value


def inherited_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    return {name: environ[name] for name in INHERITED_VARIABLES if name in environ}
