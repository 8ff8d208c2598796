"""Changes over the socket that need a password typed not long ago, where a browser makes them. A token shows itself by each use."""

from clawsite.accounts.sign_in import recent_password
from clawsite.gateway.server.registry import Call
from clawsite.infra import db


async def require_recent_password(call: Call) -> None:
    """FORBIDDEN for a browser that was left open for too long."""
    credential = call.authority.credential
    if credential.kind == "cookie" and not await db.read(recent_password.is_cookie_recent, credential.cookie):
        raise recent_password.confirmation_required()
