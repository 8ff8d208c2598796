"""“Try a command”: what would become of a line, with rules and isolation that one chooses and the agent's grants of this moment.

Nothing runs, nothing is stored. Grants of a single chat do not count: the line is tried in none.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from asgiref.sync import async_to_sync
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from agents.context.workspace import workspace_path
from agents.models import Agent
from clawsite.web.approvals.access import APPROVE, VIEW_RULES, ApprovalRequest, require_any_permission
from clawsite.web.approvals.gate_reasons import gate_reason_text
from clawsite.web.visible_text import command_html, to_visible_html
from tools_app.approvals.trial import TrialResult, run_trial
from tools_app.exec.environment import SEARCH_PATH
from tools_app.exec.gate.verdict import ExecContext, analyze
from tools_app.exec.rules import rules_for
from tools_app.exec.sandbox.available import probe_once
from tools_app.models import ExecRule

MAX_LINE_LENGTH = 20_000  # a little more than the gate takes, so that it can say so itself
MAX_ENTRIES = 200
VERDICT_LABELS = {"allow": _("Would run"), "ask": _("Would need approval"), "deny": _("Would be denied")}
LEVEL_LABELS = {str(value): words for value, words in ExecRule.Level.choices}
VERDICT_TONES = {"allow": "good", "ask": "warn", "deny": "bad"}


@require_any_permission(APPROVE, VIEW_RULES)
@require_http_methods(["GET", "HEAD", "POST"])
def try_command(request: ApprovalRequest) -> HttpResponse:
    """A POST, though it changes nothing: a command line may be long, and has no business in an address or a log."""
    given = request.POST if request.method == "POST" else QueryDict()
    agent = given.get("agent", "")[:64] or "main"
    rules = rules_for(agent, "")
    line = given.get("line", "").replace("\r\n", "\n")[:MAX_LINE_LENGTH]
    security, ask = given.get("security", rules.security), given.get("ask", rules.ask)
    if security not in ExecRule.Security.values or ask not in ExecRule.Ask.values:
        security, ask = rules.security, rules.ask
    listed = [each.strip() for each in given.get("allow", "").split("\n") if each.strip()][:MAX_ENTRIES]
    here = str(int(probe_once().level))
    level = given.get("level", here)
    if level not in LEVEL_LABELS:
        level = here
    context: dict[str, Any] = {
        "line": line,
        "agent": agent,
        "security": security,
        "ask": ask,
        "allow": "\n".join(listed),
        "level": level,
        "levels": [(value, words, value == here) for value, words in LEVEL_LABELS.items()],
        "securities": ExecRule.Security.choices,
        "asks": ExecRule.Ask.choices,
        "agents": list(Agent.objects.order_by("slug").values_list("slug", flat=True)),
        "rules": rules,
    }
    if line.strip():
        place = _build_exec_context(request, agent)
        analysis = async_to_sync(analyze)(line, place)
        supposed = replace(rules, security=cast("Any", security), ask=cast("Any", ask))
        context |= _trial_context(run_trial(analysis, place, supposed, agent=agent, level=int(level), listed=listed), line)
    return render(request, "approvals/_try_result.html" if request.htmx else "approvals/try_command.html", context)


def _build_exec_context(request: ApprovalRequest, slug: str) -> ExecContext:
    """The reader's own workspace with this agent; a directory that need not exist."""
    agent = Agent.objects.filter(slug=slug).first() or Agent(slug="main")
    workspace = workspace_path(agent, request.user.pk).resolve()
    return ExecContext(workspace, (workspace,), tuple(Path(each) for each in SEARCH_PATH))


def _trial_context(trial: TrialResult, line: str) -> dict[str, Any]:
    judgement = trial.verdict
    analysis = judgement.analysis
    parts = [{"begin": each.begin, "end": each.end, "kind": each.kind, "note": each.note} for each in analysis.parts]
    return {
        "verdict": VERDICT_LABELS[judgement.effect],
        "effect": judgement.effect,
        "tone": VERDICT_TONES[judgement.effect],
        "reasons": [gate_reason_text(each.code, each.text) for each in judgement.reasons],
        "because": [{"pk": grant.pk, "what": to_visible_html(str(grant)), "by": grant.owner} for grant in trial.because],
        "command": command_html(line, parts),
        "programs": [
            {"name": to_visible_html(each.name), "realpath": to_visible_html(each.realpath)} for each in analysis.executables
        ],
        "writes": [to_visible_html(each) for each in analysis.writes],
    }
