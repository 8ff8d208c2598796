"""The protocol as JSON Schema, generated from the declarations that validate requests, so the two can't differ."""

import functools
from typing import Any

from pydantic import TypeAdapter

from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.errors import CODES, CloseCode
from clawsite.gateway.protocol.event_catalog import EVENTS
from clawsite.gateway.protocol.frames import PROTOCOLS, ConnectParams, Event, Request, Response
from clawsite.gateway.protocol.hello import HelloOk
from clawsite.gateway.server import registry

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@functools.cache
def protocol_schema() -> dict[str, Any]:
    """Return frames, methods, events, error codes and close codes. A method needs one of its `scopes`; `scope` is the first."""
    methods: dict[str, dict[str, Any]] = {
        "connect": {
            "scope": None,
            "scopes": [],
            "role": None,
            "limitedTokens": None,
            "description": "The first request of every connection. It is not allowed later.",
            "params": ConnectParams.model_json_schema(),
            "result": TypeAdapter(HelloOk).json_schema(mode="serialization"),
            "refused": {},
        }
    }
    for name, method in sorted(registry.list_methods().items()):
        methods[name] = {
            "scope": method.scopes[0].value if method.scopes else None,
            "scopes": [scope.value for scope in method.scopes],
            "role": method.role,
            "limitedTokens": method.limited.value if method.limited else None,
            "description": method.description,
            "params": method.params.model_json_schema(),
            "result": TypeAdapter(method.result).json_schema(mode="serialization"),
            "refused": dict(method.params.refused),
        }
    return {
        "$schema": DIALECT,
        "protocols": list(PROTOCOLS),
        "policy": {
            "maxPayload": limits.MAX_FRAME_BYTES,
            "maxFirstFrame": limits.MAX_FIRST_FRAME_BYTES,
            "maxBufferedBytes": limits.MAX_BUFFERED_BYTES,
            "maxReplyBytes": limits.MAX_REPLY_BYTES,
            "tickIntervalMs": int(limits.TICK_SECONDS * 1000),
            "requestsInFlight": limits.MAX_REQUESTS_IN_FLIGHT,
        },
        "frames": {name: model.model_json_schema() for name, model in (("req", Request), ("res", Response), ("event", Event))},
        "methods": methods,
        "events": {
            name: {"droppable": event.droppable, "payload": TypeAdapter(event.payload).json_schema(mode="serialization")}
            for name, event in EVENTS.items()
        },
        "errorCodes": CODES,
        "closeCodes": {str(code.value): code.meaning for code in CloseCode},
    }
