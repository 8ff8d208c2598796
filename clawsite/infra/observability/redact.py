"""Secrets kept out of logs and out of what a model is told: one redactor for both. Needs no Django.

It is the last guard behind the rule that nobody hands secrets over, not a permission to rely on it: a value that somebody has
encoded or taken apart goes through.
"""

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from urllib.parse import unquote, urlsplit

REPLACEMENT = "[redacted]"
MIN_SECRET_LENGTH = 8  # characters of a secret; a shorter one would blank ordinary words

# What a credential looks like, by the letters it begins with. Looking for those first is a hundred times faster than the patterns.
_TOKEN_FORMATS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("claw_",), r"\bclaw_[\w-]{8,}"),  # our own access tokens
    (("sk-", "rk-", "pk-"), r"\b(?:sk|rk|pk)-[\w-]{20,}"),  # OpenAI, Anthropic, OpenRouter, Stripe; with a digit, see _blank
    (("xox", "xapp-"), r"\b(?:xox[a-z]|xapp)-[\w-]{8,}"),  # Slack
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), r"\b(?:gh[pousr]|github_pat)_\w{16,}"),  # GitHub
    (("AIza",), r"\bAIza[\w-]{30,}"),  # Google
    (("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),  # AWS
    (("eyJ",), r"\beyJ[\w-]{8,4000}+\.[\w-]{8,}\.[\w-]*"),  # JSON web tokens; bounded, or a hostile text takes seconds
    ((":AA",), r"\b\d{6,12}:AA[\w-]{30,}"),  # Telegram bots
)
_TOKEN_PATTERNS = tuple((begins, re.compile(pattern)) for begins, pattern in _TOKEN_FORMATS)
# What only its surroundings give away; group 1 is kept. Source code is full of `password = …`, so these are for logs alone.
_HINTS = re.compile(
    r"""
      ()\b(?:sk|rk|pk)-[\w-]{8,}
    | (\b(?:Bearer|Basic)\s+)[\w.~+/=-]{6,}            # Authorization headers
    | (://[^\s/:@]*:)[^\s/@]+(?=@)                     # the password in a URL
    | ((?:api[_-]?key|password|passwd|secret|token)["']?\s*[:=]\s*["']?)(?!\[redacted\])[^\s"',;&)}\]]{6,}
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_\d+)?$", re.IGNORECASE)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """For logs: without anything that looks or sounds like a credential, nor any of these secrets."""
    text = remove_secrets(text, secrets)
    return _HINTS.sub(lambda match: "".join(group or "" for group in match.groups()) + REPLACEMENT, text)


def remove_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """For results: without these secrets and unmistakable credentials. Ordinary source code is left as it is."""
    for secret in secrets:
        text = text.replace(secret, REPLACEMENT)
    for begins, shape in _TOKEN_PATTERNS:
        if any(begin in text for begin in begins):
            text = shape.sub(_replace_match, text)
    return text


def _replace_match(match: re.Match[str]) -> str:
    """Names begin with `sk-` too; a key has digits. Looked at here: in the pattern a text full of `sk-` would take minutes."""
    is_name = match[0].startswith(("sk-", "rk-", "pk-")) and not re.search(r"\d", match[0])
    return match[0] if is_name else REPLACEMENT


def host_secrets(named: Iterable[str] = (), environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The values this process must not give away: those named, and what its environment keeps under a secret's name."""
    kept = {secret for secret in named if len(secret) >= MIN_SECRET_LENGTH}
    for name, value in environ.items():
        secret = value.strip() if _is_secret_name(name) else _find_password(value) if name.endswith("_URL") else ""
        if len(secret) >= MIN_SECRET_LENGTH and not secret.startswith(
            "/"
        ):  # a path to a key is no secret, and stands in other paths
            kept.add(secret)
    return tuple(sorted(kept, key=lambda secret: (-len(secret), secret)))  # the longest first: one may contain another


@cache
def _is_secret_name(name: str) -> bool:
    return bool(_SECRET_NAME.search(name))


def _find_password(url: str) -> str:
    try:
        return unquote(urlsplit(url).password or "")
    except ValueError:
        return ""
