"""Whose words a run is about, where they are not simply those of who owns it: a webhook's, or those of a program whose token may
use some tools only. Such a run has limits, and each of its entries says so, because later runs without them read it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sessions_app.keys import parse_key

WEBHOOK_KEY = "hook"  # in a run's options: the webhook that it is about, whose limits it has
TOKEN_LIMITS_KEY = "keyLimits"  # likewise: what the access token behind it allows of the tools
TOKEN_PREFIX_KEY = "tokenPrefix"  # in an entry's meta, beside HOOK: that access token
NO_ORIGIN: Mapping[str, str] = MappingProxyType({})  # of an ordinary run


def origin_of_run(options: Mapping[str, Any]) -> dict[str, str]:
    """For the meta of an entry; nothing for an ordinary run."""
    origin = {WEBHOOK_KEY: options[WEBHOOK_KEY]} if options.get(WEBHOOK_KEY) else {}
    return {**origin, TOKEN_PREFIX_KEY: options[TOKEN_LIMITS_KEY]["name"]} if options.get(TOKEN_LIMITS_KEY) else origin


def origin_of_entry(meta: Mapping[str, Any]) -> dict[str, str]:
    return {name: meta[name] for name in (WEBHOOK_KEY, TOKEN_PREFIX_KEY) if meta.get(name)}


def reader_origin(options: Mapping[str, Any], session_key: str) -> dict[str, str]:
    """As whom a run reads the past: its own origin, and the webhook that the whole conversation is with."""
    hook = parse_key(session_key).hook
    return {**({WEBHOOK_KEY: hook} if hook else {}), **origin_of_run(options)}
