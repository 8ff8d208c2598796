"""Where a run's input comes from when it isn't simply its owner: a webhook, or a program whose access token allows only some tools.

Such a run is limited, and each of its entries records the origin because later runs without the limits read it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sessions_app.keys import parse_key

WEBHOOK_KEY = "hook"  # run option: the webhook that triggered the run and limits it
TOKEN_LIMITS_KEY = "keyLimits"  # noqa: S105  # run option: the tool limits of the access token used
TOKEN_PREFIX_KEY = "tokenPrefix"  # noqa: S105  # in an entry's meta, beside WEBHOOK_KEY: the prefix of that access token
NO_ORIGIN: Mapping[str, str] = MappingProxyType({})  # for an ordinary run


def origin_of_run(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the origin to store in an entry's meta; empty for an ordinary run."""
    origin = {WEBHOOK_KEY: options[WEBHOOK_KEY]} if options.get(WEBHOOK_KEY) else {}
    return {**origin, TOKEN_PREFIX_KEY: options[TOKEN_LIMITS_KEY]["name"]} if options.get(TOKEN_LIMITS_KEY) else origin


def origin_of_entry(meta: Mapping[str, Any]) -> dict[str, str]:
    return {name: meta[name] for name in (WEBHOOK_KEY, TOKEN_PREFIX_KEY) if meta.get(name)}


def reader_origin(options: Mapping[str, Any], session_key: str) -> dict[str, str]:
    """Return the origin a run reads history as: its own, plus the webhook that the session belongs to."""
    hook = parse_key(session_key).hook
    return {**({WEBHOOK_KEY: hook} if hook else {}), **origin_of_run(options)}
