"""Freeze agents by ID. Checks that the agent exists and leaves the rest to `sessions_app.runs.freezes`."""

from django.utils.translation import gettext as _

from agents.selectors import agent_exists
from clawsite.accounts.models import User
from clawsite.infra.errors import NotFound
from sessions_app.models import Freeze
from sessions_app.runs import freezes


def freeze(scope: str, subject: str = "", *, reason: str, by: User | None, by_name: str = "") -> tuple[Freeze, bool]:
    """Like `freezes.freeze`, but raise NotFound for an unknown agent instead of freezing nothing."""
    if scope == Freeze.Scope.AGENT and subject and not agent_exists(subject):
        raise NotFound(_("Agent not found: %(agent)s") % {"agent": subject}, details={"code": "UNKNOWN_AGENT_ID"})
    return freezes.freeze(scope, subject, reason=reason, by=by, by_name=by_name)
