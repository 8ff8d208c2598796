"""Whose words a run is about, where they are not simply those of who owns it: a webhook's, or those of a program whose token may
use some tools only. Such a run has limits, and each of its entries says so, because later runs without them read it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sessions_app.keys import parse_key

HOOK = "hook"  # in a run's options: the webhook that it is about, whose limits it has
KEY_LIMITS = "keyLimits"  # likewise: what the access token behind it allows of the tools
PROGRAM = "tokenPrefix"  # in an entry's meta, beside HOOK: that access token
NOBODY: Mapping[str, str] = MappingProxyType({})  # of an ordinary run


def origin_of(options: Mapping[str, Any]) -> dict[str, str]:
    """For the meta of an entry; nothing for an ordinary run."""
    origin = {HOOK: options[HOOK]} if options.get(HOOK) else {}
    return {**origin, PROGRAM: options[KEY_LIMITS]["name"]} if options.get(KEY_LIMITS) else origin


def origin_in(meta: Mapping[str, Any]) -> dict[str, str]:
    return {name: meta[name] for name in (HOOK, PROGRAM) if meta.get(name)}


def reader_of(options: Mapping[str, Any], session_key: str) -> dict[str, str]:
    """As whom a run reads the past: its own origin, and the webhook that the whole conversation is with."""
    hook = parse_key(session_key).hook
    return {**({HOOK: hook} if hook else {}), **origin_of(options)}
