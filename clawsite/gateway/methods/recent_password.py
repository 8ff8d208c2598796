"""Require a recently confirmed password for sensitive changes made in a browser. Tokens are exempt: each use sends them."""

from clawsite.accounts.sign_in import recent_password
from clawsite.gateway.server.registry import Call
from clawsite.infra import db


async def require_recent_password(call: Call) -> None:
    """Raise Forbidden for a browser whose last password check is too old."""
    credential = call.authority.credential
    if credential.kind == "cookie" and not await db.read(recent_password.is_cookie_recent, credential.cookie):
        raise recent_password.confirmation_required()
