"""“Try a command”: evaluate a command line with chosen rules and sandbox level and the agent's current grants.

Nothing runs and nothing is stored. Grants limited to one chat don't apply, because the trial belongs to no chat.
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
from clawsite.web.visible_text import command_html, reason_html, to_visible_html
from tools_app.approvals.trial import TrialResult, run_trial
from tools_app.exec.environment import SEARCH_PATH
from tools_app.exec.gate.types import public_code
from tools_app.exec.gate.verdict import ExecContext, analyze
from tools_app.exec.rules import rules_for
from tools_app.exec.sandbox.available import probe_once
from tools_app.models import ExecRule

MAX_LINE_LENGTH = 20_000  # slightly more than the gate's limit, so that the gate reports the error
MAX_ENTRIES = 200
VERDICT_LABELS = {"allow": _("Would run"), "ask": _("Would need approval"), "deny": _("Would be denied")}
LEVEL_LABELS = {str(value): label for value, label in ExecRule.Level.choices}
VERDICT_TONES = {"allow": "good", "ask": "warn", "deny": "bad"}


@require_any_permission(APPROVE, VIEW_RULES)
@require_http_methods(["GET", "HEAD", "POST"])
def try_command(request: ApprovalRequest) -> HttpResponse:
    """Uses POST although it changes nothing: command lines can be long and must not appear in URLs or logs."""
    form = request.POST if request.method == "POST" else QueryDict()
    agent = form.get("agent", "")[:64] or "main"
    rules = rules_for(agent, "")
    line = form.get("line", "").replace("\r\n", "\n")[:MAX_LINE_LENGTH]
    security, ask = form.get("security", rules.security), form.get("ask", rules.ask)
    if security not in ExecRule.Security.values or ask not in ExecRule.Ask.values:
        security, ask = rules.security, rules.ask
    listed = [each.strip() for each in form.get("allow", "").split("\n") if each.strip()][:MAX_ENTRIES]
    available_level = str(int(probe_once().level))
    level = form.get("level", available_level)
    if level not in LEVEL_LABELS:
        level = available_level
    context: dict[str, Any] = {
        "line": line,
        "agent": agent,
        "security": security,
        "ask": ask,
        "allow": "\n".join(listed),
        "level": level,
        "levels": [(value, label, value == available_level) for value, label in LEVEL_LABELS.items()],
        "securities": ExecRule.Security.choices,
        "asks": ExecRule.Ask.choices,
        "agents": list(Agent.objects.order_by("slug").values_list("slug", flat=True)),
        "rules": rules,
    }
    if line.strip():
        exec_context = _build_exec_context(request, agent)
        analysis = async_to_sync(analyze)(line, exec_context)
        trial_rules = replace(rules, security=cast("Any", security), ask=cast("Any", ask))
        trial = run_trial(analysis, exec_context, trial_rules, agent=agent, level=int(level), listed=listed)
        context |= _trial_context(trial, line)
    return render(request, "approvals/_try_result.html" if request.htmx else "approvals/try_command.html", context)


def _build_exec_context(request: ApprovalRequest, slug: str) -> ExecContext:
    """Use the reader's workspace with this agent. The directory doesn't have to exist."""
    agent = Agent.objects.filter(slug=slug).first() or Agent(slug="main")
    workspace = workspace_path(agent, request.user.pk).resolve()
    return ExecContext(workspace, (workspace,), tuple(Path(each) for each in SEARCH_PATH))


def _trial_context(trial: TrialResult, line: str) -> dict[str, Any]:
    verdict = trial.verdict
    analysis = verdict.analysis
    parts = [{"begin": each.begin, "end": each.end, "kind": each.kind, "note": each.note} for each in analysis.parts]
    return {
        "verdict": VERDICT_LABELS[verdict.effect],
        "effect": verdict.effect,
        "tone": VERDICT_TONES[verdict.effect],
        "reasons": [{"code": public_code(each), "text": reason_html(each)} for each in verdict.reasons],
        "because": [{"pk": grant.pk, "what": to_visible_html(str(grant)), "by": grant.owner} for grant in trial.because],
        "command": command_html(line, parts),
        "programs": [
            {"name": to_visible_html(each.name), "realpath": to_visible_html(each.realpath)} for each in analysis.executables
        ],
        "writes": [to_visible_html(each) for each in analysis.writes],
    }
