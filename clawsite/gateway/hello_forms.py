"""hello-ok in the form of each protocol. It is made once, with all there is; here it is given to one client. Pure."""

from typing import Any

from clawsite.gateway.frames import Dialect
from clawsite.gateway.presence import listed
from sessions_app.attachments import LARGEST_INLINE

CLASSIC_ONLY = frozenset({"version", "caps", "permissions", "session"})  # protocol 1's; the others have no place for them
# Of the promises OpenClaw's clients look for, those that hold: models.list says of each model whether it can be used.
CAPABILITIES = ("published-model-catalog",)


def hello_in(dialect: Dialect, hello: dict[str, Any]) -> dict[str, Any]:
    if dialect == "classic":
        return hello
    told = {name: value for name, value in hello.items() if name not in CLASSIC_ONLY}
    told["features"] = {**hello["features"], "capabilities": list(CAPABILITIES)}
    told["snapshot"] = {**hello["snapshot"], "presence": listed(hello["snapshot"]["presence"], dialect)}
    told["policy"] = {**hello["policy"], "attachments": {"maxBytes": LARGEST_INLINE, "maxImageBytes": LARGEST_INLINE}}
    return told
