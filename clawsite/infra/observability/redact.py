"""Remove secrets from logs and from tool results for models. Needs no Django.

This is a last safeguard, and code must not rely on it: it doesn't recognize a secret that is encoded or split.
"""

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from urllib.parse import unquote, urlsplit

REPLACEMENT = "[redacted]"
MIN_SECRET_LENGTH = 8  # characters; a shorter secret would redact ordinary words

# Credential formats by prefix. Searching for the prefixes first is a hundred times faster than running the patterns.
_TOKEN_FORMATS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("claw_",), r"\bclaw_[\w-]{8,}"),  # our own access tokens
    (("sk-", "rk-", "pk-"), r"\b(?:sk|rk|pk)-[\w-]{20,}"),  # OpenAI, Anthropic, OpenRouter, Stripe; see _replace_match
    (("xox", "xapp-"), r"\b(?:xox[a-z]|xapp)-[\w-]{8,}"),  # Slack
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), r"\b(?:gh[pousr]|github_pat)_\w{16,}"),  # GitHub
    (("AIza",), r"\bAIza[\w-]{30,}"),  # Google
    (("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),  # AWS
    (("eyJ",), r"\beyJ[\w-]{8,4000}+\.[\w-]{8,}\.[\w-]*"),  # JSON web tokens; bounded, because hostile text would take seconds
    ((":AA",), r"\b\d{6,12}:AA[\w-]{30,}"),  # Telegram bots
)
_TOKEN_PATTERNS = tuple((prefixes, re.compile(pattern)) for prefixes, pattern in _TOKEN_FORMATS)
# Secrets recognized by their context; the groups are kept. Only for logs, because source code is full of `password = …`.
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
    """Remove these secrets and anything that looks or is named like a credential. For logs."""
    text = remove_secrets(text, secrets)
    return _HINTS.sub(lambda match: "".join(group or "" for group in match.groups()) + REPLACEMENT, text)


def remove_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Remove these secrets and unmistakable credentials. For tool results, so ordinary source code is unchanged."""
    for secret in secrets:
        text = text.replace(secret, REPLACEMENT)
    for prefixes, pattern in _TOKEN_PATTERNS:
        if any(prefix in text for prefix in prefixes):
            text = pattern.sub(_replace_match, text)
    return text


def _replace_match(match: re.Match[str]) -> str:
    """Redact `sk-…` only if it has a digit: names can start with `sk-` too. Checking this in the pattern could take minutes."""
    is_name = match[0].startswith(("sk-", "rk-", "pk-")) and not re.search(r"\d", match[0])
    return match[0] if is_name else REPLACEMENT


def host_secrets(known: Iterable[str] = (), environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the secrets of this process: `known` ones, and environment variables named like secrets."""
    found = {secret for secret in known if len(secret) >= MIN_SECRET_LENGTH}
    for name, value in environ.items():
        secret = value.strip() if _is_secret_name(name) else _find_password(value) if name.endswith("_URL") else ""
        # The path of a key file is not a secret, and other paths may contain it.
        if len(secret) >= MIN_SECRET_LENGTH and not secret.startswith("/"):
            found.add(secret)
    return tuple(sorted(found, key=lambda secret: (-len(secret), secret)))  # longest first: one may contain another


@cache
def _is_secret_name(name: str) -> bool:
    return bool(_SECRET_NAME.search(name))


def _find_password(url: str) -> str:
    try:
        return unquote(urlsplit(url).password or "")
    except ValueError:
        return ""
