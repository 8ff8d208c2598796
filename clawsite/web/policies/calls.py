"""Why a tool call was allowed or denied: the stored query and trace, the policy version then, and the result under current rules.

Operators see the query and the result. Only users who may read the chat see its text and the call's arguments.
"""

from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from agents.prepare.effective_tools import find_unavailable_tools
from clawsite.infra.admin.display import pretty_json
from clawsite.infra.errors import NotFound
from clawsite.web.policies.access import PolicyRequest, require_permission_or_404
from clawsite.web.policies.diff import diff_rules
from clawsite.web.policies.labels import explain_denial, unavailable_text
from clawsite.web.policies.query import ExplainQuery, clean_text
from clawsite.web.policies.table import build_trace_cells
from clawsite.web.runs.labels import CALL_STATUS_LABELS
from sessions_app.admin.display import format_decision
from sessions_app.models import ToolCall
from sessions_app.reports import runs as run_reports
from sessions_app.verdicts import ADMISSION_KEY
from tools_app.authorize import EXEC
from tools_app.policy.evaluation import NOT_OFFERED, Verdict, evaluate
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules
from tools_app.policy_store import policies


@require_permission_or_404
@require_safe
def find_call(request: PolicyRequest) -> HttpResponse:
    """Redirect from a tool card, which has the run and call IDs used in the protocol."""
    run_id, call_id = (clean_text(request.GET.get(name, "")) for name in ("run", "call"))
    matches = ToolCall.objects.filter(run__run_id=run_id, call_id=call_id).order_by("-pk").values_list("pk", "run_id")
    for pk, run_pk in matches[:10]:  # several users may have chosen the same run ID
        if _find_run(request, run_pk):
            return redirect("policy-call", pk)
    raise Http404


@require_permission_or_404
@require_safe
def show_call(request: PolicyRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(ToolCall.objects.select_related("run", "session"), pk=pk)
    access = _find_run(request, row.run_id)
    if access is None:
        raise Http404
    rules = policies.current_rules()
    query = PolicyQuery.from_json(row.query) if row.query else None
    steps = Verdict.from_json(row.verdict).trace.get(row.name, ()) if row.verdict else ()
    context: dict[str, Any] = {
        "call": row,
        "state": CALL_STATUS_LABELS.get(row.status, row.status),
        "refused": row.status == ToolCall.Status.REFUSED,
        "why": _explain_call(row, steps),
        "unheard_of": row.refused_by == NOT_OFFERED and not (query and any(facts.name == row.name for facts in query.tools)),
        "asked": _describe_query(query) if query else [],
        "cells": build_trace_cells(steps, query, rules),
        "now": _evaluate_now(row, query, rules),
        "rules": rules,
        "since": _changes_since(row.policy_version, rules),
        "words": access.may_read_text,
        "arguments": pretty_json(row.arguments) if access.may_read_text else "",
        "everything": ExplainQuery.from_query(query).address() if query else "",
        "this_tool": ExplainQuery.from_query(query, row.name).address() if query else "",
    }
    return render(request, "policies/call.html", context)


def _find_run(request: PolicyRequest, run_pk: int) -> run_reports.RunAccess | None:
    try:
        return run_reports.find_viewable_run(request.user, pk=run_pk)
    except NotFound:
        return None


def _explain_call(row: ToolCall, steps: Any) -> str:
    if row.refused_by in (NOT_OFFERED, EXEC) or ADMISSION_KEY in row.verdict:
        return capfirst(format_decision(row))
    return explain_denial(next((step for step in steps if step.effect == "deny"), None))


def _evaluate_now(row: ToolCall, query: PolicyQuery | None, rules: PolicyRules) -> dict[str, Any] | None:
    """Evaluate the same query with the current rules; None if that isn't possible."""
    verdict = evaluate(query, rules) if query else None
    if verdict is None or row.name not in verdict.trace:
        return None
    denied_by = verdict.refused_by(row.name)
    missing = find_unavailable_tools(query, row.session.owner_id).get(row.name) if query else None
    return {
        "kept": denied_by is None,
        "missing": unavailable_text(missing) if missing else "",
        "why": explain_denial(denied_by),
    }


def _changes_since(version: int, rules: PolicyRules) -> Any:
    if version == rules.version:
        return None
    try:
        return diff_rules(policies.rules_at(version), rules)
    except NotFound:
        return None


def _describe_query(query: PolicyQuery) -> list[tuple[str, str]]:
    """Describe the query as name and value pairs, without empty ones."""
    sender = ", ".join(filter(None, (query.sender.id, query.sender.e164, query.sender.username, query.sender.name)))
    pairs = [
        (_("Agent"), query.agent),
        (_("Model"), query.model_label),
        (_("Requested by"), _("Session owner") if query.is_owner else _("Another user")),
        (_("Channel"), query.channel),
        (_("Group"), query.group),
        (_("Sender"), sender),
        (_("Sandbox"), _("yes") if query.sandboxed else ""),
        (_("Subagent"), _("yes") if query.is_subagent else ""),
    ]
    return [(name, value) for name, value in pairs if value]
