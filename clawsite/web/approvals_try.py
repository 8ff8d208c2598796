"""“Try a command”: what the gate says about a line, with rules that one chooses. Nothing runs, nothing is stored."""

from pathlib import Path
from typing import Any, cast

from asgiref.sync import async_to_sync
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from agents.models import Agent
from agents.workspace import place_of
from clawsite.web.approvals_access import APPROVE, LOOK_AT_RULES, ApprovalRequest, for_people
from clawsite.web.visible_text import command_html, seen
from tools_app.execution.environment import SEARCH
from tools_app.execution.gate import AllowEntry, GateRules, Judgement, Place, analyse, judge
from tools_app.execution.rules import rules_for
from tools_app.models import ExecRule

LONGEST_LINE = 20_000  # a little more than the gate takes, so that it can say so itself
MOST_ENTRIES = 200
VERDICT = {"allow": _("It would run"), "ask": _("Somebody would be asked"), "deny": _("It would be refused")}
TONE = {"allow": "good", "ask": "warn", "deny": "bad"}


@for_people(APPROVE, LOOK_AT_RULES)
@require_http_methods(["GET", "HEAD", "POST"])
def try_command(request: ApprovalRequest) -> HttpResponse:
    """A POST, though it changes nothing: a command line may be long, and has no business in an address or a log."""
    given = request.POST if request.method == "POST" else QueryDict()
    agent = given.get("agent", "")[:64] or "main"
    rules = rules_for(agent, "")
    line = given.get("line", "").replace("\r\n", "\n")[:LONGEST_LINE]
    security, ask = given.get("security", rules.security), given.get("ask", rules.ask)
    if security not in ExecRule.Security.values or ask not in ExecRule.Ask.values:
        security, ask = rules.security, rules.ask
    typed = given.get("allow", "").split("\n")
    entries = tuple(AllowEntry(each.strip()) for each in typed if each.strip())[:MOST_ENTRIES]
    context: dict[str, Any] = {
        "line": line,
        "agent": agent,
        "security": security,
        "ask": ask,
        "allow": "\n".join(entry.pattern for entry in entries),
        "securities": ExecRule.Security.choices,
        "asks": ExecRule.Ask.choices,
        "agents": list(Agent.objects.order_by("slug").values_list("slug", flat=True)),
        "rules": rules,
    }
    if line.strip():
        analysis = async_to_sync(analyse)(line, _place(request, agent))
        context |= _told(judge(analysis, GateRules(cast("Any", security), cast("Any", ask), entries)), line)
    return render(request, "approvals/_verdict.html" if request.htmx else "approvals/try.html", context)


def _place(request: ApprovalRequest, slug: str) -> Place:
    """The reader's own workspace with this agent; a directory that need not exist."""
    agent = Agent.objects.filter(slug=slug).first() or Agent(slug="main")
    workspace = place_of(agent, request.user.pk).resolve()
    return Place(workspace, (workspace,), tuple(Path(each) for each in SEARCH))


def _told(judgement: Judgement, line: str) -> dict[str, Any]:
    analysis = judgement.analysis
    parts = [{"begin": each.begin, "end": each.end, "kind": each.kind, "note": each.note} for each in analysis.parts]
    return {
        "verdict": VERDICT[judgement.effect],
        "effect": judgement.effect,
        "tone": TONE[judgement.effect],
        "reasons": [{"code": each.code, "words": seen(each.words)} for each in judgement.reasons],
        "command": command_html(line, parts),
        "programs": [{"name": seen(each.name), "realpath": seen(each.realpath)} for each in analysis.executables],
        "writes": [seen(each) for each in analysis.writes],
    }
