"""The offer to let an agent request commands. Commands are denied by default; one click changes that."""

from dataclasses import dataclass

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents.models import Agent
from clawsite.accounts.models import User
from clawsite.infra.errors import ClawError
from clawsite.web.approvals.access import CHANGE_RULES, ApprovalRequest, require_any_permission
from clawsite.web.redirects import safe_redirect_url
from tools_app.exec.rules import enable_asking, rules_for

MAIN_AGENT = "main"


@dataclass(frozen=True, slots=True)
class EnableAgentOffer:
    agent: str
    may: bool  # the reader may enable it
    said_by: str  # the exec rule that denies commands; empty for the default


def find_offer(user: User, agent: str) -> EnableAgentOffer | None:
    """Return None if the agent can already request commands."""
    slug = agent[:64] if agent and Agent.objects.filter(slug=agent[:64]).exists() else MAIN_AGENT
    rules = rules_for(slug, "")
    if rules.security != "deny":
        return None
    return EnableAgentOffer(slug, user.has_perm(CHANGE_RULES), rules.set_by.get("security", ""))


@require_any_permission(CHANGE_RULES)
@require_POST
def enable_agent(request: ApprovalRequest) -> HttpResponse:
    agent = request.POST.get("agent", "")
    if not Agent.objects.filter(slug=agent).exists():
        raise Http404
    try:
        enable_asking(agent, request.user)
    except ClawError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, _("Agent %(agent)s can now request commands. Its requests appear here.") % {"agent": agent})
    return redirect(safe_redirect_url(request, request.POST.get("next"), "/approvals/"))
