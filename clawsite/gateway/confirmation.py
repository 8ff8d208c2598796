"""Changes over the socket that need a password typed not long ago, where a browser makes them. A token shows itself by each use."""

from clawsite.accounts import confirmed
from clawsite.gateway.registry import Call
from clawsite.infra import db


async def need_recent_password(call: Call) -> None:
    """FORBIDDEN for a browser that was left open for too long."""
    credential = call.authority.credential
    if credential.kind == "cookie" and not await db.read(confirmed.cookie_is_recent, credential.cookie):
        raise confirmed.refusal()
