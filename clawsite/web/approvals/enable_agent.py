"""“Let this agent ask”: where nobody has said anything about commands they are refused, and one click changes that."""

from dataclasses import dataclass

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents.models import Agent
from clawsite.accounts.models import User
from clawsite.infra.errors import ClawError
from clawsite.web.approvals.access import RULES, ApprovalRequest, for_people
from clawsite.web.redirects import inside
from tools_app.exec.rules import let_ask, rules_for

MAIN = "main"


@dataclass(frozen=True, slots=True)
class Offer:
    agent: str
    may: bool  # this reader may switch it on
    said_by: str  # the rule that refuses commands; empty when nobody has said anything


def offer_for(user: User, agent: str) -> Offer | None:
    """None when the agent may ask already, or for who has nothing to do with it."""
    wanted = agent[:64] if agent and Agent.objects.filter(slug=agent[:64]).exists() else MAIN
    rules = rules_for(wanted, "")
    if rules.security != "deny":
        return None
    return Offer(wanted, user.has_perm(RULES), rules.said_by.get("security", ""))


@for_people(RULES)
@require_POST
def let(request: ApprovalRequest) -> HttpResponse:
    agent = request.POST.get("agent", "")
    if not Agent.objects.filter(slug=agent).exists():
        raise Http404
    try:
        let_ask(agent, request.user)
    except ClawError as refused:
        messages.error(request, refused.message)
    else:
        messages.success(request, _("Agent %(agent)s can now request commands. Its requests appear here.") % {"agent": agent})
    return redirect(inside(request, request.POST.get("next"), "/approvals/"))
