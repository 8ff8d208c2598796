"""“Tool access explained”: a query in the URL, a table of results, and a draft rule to try before saving it.

htmx reloads the results whenever a field changes; without JavaScript it is a plain form. The results come from the same
evaluator that enforces the policy; tools_app.policy_store.policies saves rules.
"""

from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect, replace_url

from agents.models import Agent
from agents.prepare.model_choice import list_offered_models
from clawsite.infra.errors import ClawError, Conflict, NotFound
from clawsite.web.policies.access import CHANGE_POLICY, DELETE_POLICY, VIEW_CALLS, PolicyRequest, require_permissions
from clawsite.web.policies.diff import RuleChange, diff_rules
from clawsite.web.policies.draft import CONTENT_FIELDS, PolicyDraft
from clawsite.web.policies.query import ExplainQuery
from clawsite.web.policies.table import build_table
from tools_app.models import PolicyVersion, ToolPolicy
from tools_app.policy.catalog import PROFILES
from tools_app.policy.rules import SCOPE_FIELDS, PolicyRules
from tools_app.policy_store import known_agents, policies
from tools_app.policy_store.replay import ReplayReport, replay_calls
from tools_app.policy_store.vocabulary import suggest_entries

DAY_CHOICES = {"1": gettext_lazy("Last day"), "7": gettext_lazy("Last 7 days"), "30": gettext_lazy("Last 30 days")}
SHOW_CHOICES = (
    ("", gettext_lazy("All")),
    ("refused", gettext_lazy("Denied only")),
    ("kept", gettext_lazy("Allowed only")),
    ("missing", gettext_lazy("Allowed, unavailable only")),
    ("changed", gettext_lazy("Changed by the draft only")),
)


@require_permissions()
@require_safe
def show_explanation(request: PolicyRequest) -> HttpResponse:
    return _render_page(request, request.GET)


@require_permissions(CHANGE_POLICY)
@require_POST
def save_draft(request: PolicyRequest) -> HttpResponse:
    """Save the draft. With JavaScript, it arrives as form fields; otherwise as a single field, as it was last rendered."""
    params = request.POST if "scope" in request.POST else QueryDict(request.POST.get("draft", ""))
    explain_query, rules = ExplainQuery.read(params), policies.current_rules()
    draft = PolicyDraft.read(params, explain_query, rules)
    if draft is None or draft.is_faulty:
        return _render_page(request, params, status=422)
    # `over` is the version whose changes the author was shown.
    expected = int(over) if (over := request.POST.get("over", "")[:9]).isdecimal() else draft.seen
    try:
        policies.save_policy(**draft.row.to_json(), changed_by=request.user, expected_version=expected)
    except Conflict:
        return _render_page(request, params, status=409)
    except ClawError as error:
        return _render_page(request, params, status=422, problem=error.message)
    messages.success(request, _("Saved. This is policy version %d.") % policies.current_rules().version)
    for finding in draft.findings:
        messages.warning(request, finding.message)
    return _redirect_to(request, explain_query)


@require_permissions(DELETE_POLICY)
@require_POST
def delete_rule(request: PolicyRequest) -> HttpResponse:
    """Delete the rule of the draft's scope."""
    params = QueryDict(request.POST.get("draft", ""))
    explain_query = ExplainQuery.read(params)
    draft = PolicyDraft.read(params, explain_query, policies.current_rules())
    if draft is None:
        return _redirect_to(request, explain_query)
    scope = {name: getattr(draft.row, name) for name in SCOPE_FIELDS}
    try:
        policies.delete_policy(**scope, changed_by=request.user, expected_version=draft.seen)
    except Conflict:
        return _render_page(request, params, status=409)
    except ClawError as error:
        return _render_page(request, params, status=422, problem=error.message)
    messages.success(request, _("The rule was deleted. This is policy version %d.") % policies.current_rules().version)
    return _redirect_to(request, explain_query)


def _redirect_to(request: PolicyRequest, explain_query: ExplainQuery) -> HttpResponse:
    return HttpResponseClientRedirect(explain_query.address()) if request.htmx else redirect(explain_query.address())


def _render_page(request: PolicyRequest, params: Any, *, status: int = 200, problem: str = "") -> HttpResponse:
    """Render the full page or, for htmx, the parts that depend on the fields."""
    explain_query, rules = ExplainQuery.read(params), policies.current_rules()
    draft = PolicyDraft.read(params, explain_query, rules)
    draft_rules = draft.apply_to_rules() if draft and not draft.is_faulty else None
    table = build_table(explain_query, rules, draft_rules, reader_id=request.user.pk)
    draft_params = draft.params() if draft else {}
    address = explain_query.address(draft_params)
    unfiltered = replace(explain_query, tool="", of="", show="").address(draft_params)
    context: dict[str, Any] = {
        "question": explain_query,
        "no_such_agent": known_agents.is_missing_agent(explain_query.agent),
        "rules": rules,
        "draft": draft,
        "answer": table,
        "one": table.rows[0] if len(table.rows) == 1 else None,
        "address": address,
        "query_string": address.partition("?")[2],
        "unfiltered": unfiltered,
        "only_missing": replace(explain_query, tool="", of="", show="missing").address(draft_params),
        "only": f"{unfiltered}{'&' if '?' in unfiltered else '?'}tool=",
        "start_over": explain_query.edit_address(draft.row) if draft else "",
        "problem": problem,
        "meanwhile": _list_later_changes(draft, rules) if draft and draft.outdated else None,
        "broken": [policies.describe_broken_test(each) for each in policies.find_broken_tests(draft_rules)] if draft_rules else [],
        "replayed": _replay_calls(request, params, draft_rules or rules),
        "may_replay": request.user.has_perm(VIEW_CALLS),
        "may_change": request.user.has_perm(CHANGE_POLICY),
        "may_delete": request.user.has_perm(DELETE_POLICY),
        "days": DAY_CHOICES.items(),
    }
    if draft:
        context["said"] = {
            name: [each for each in draft.findings if each.field == name] for name in (*SCOPE_FIELDS, *CONTENT_FIELDS)
        }
    if not request.htmx or (draft and draft.renewed):
        context |= _field_choices(rules, draft)
    if request.htmx:
        return replace_url(render(request, "policies/_explain_update.html", context, status=status), address)
    context["version"] = PolicyVersion.objects.select_related("changed_by").first()
    return render(request, "policies/explain.html", context, status=status)


def _field_choices(rules: PolicyRules, draft: PolicyDraft | None) -> dict[str, Any]:
    """Return suggestions for the fields, which also accept other values."""
    return {
        "agents": sorted({*Agent.objects.values_list("slug", flat=True), *(row.subject for row in rules.rows if row.subject)}),
        "models": dict.fromkeys(
            [*(row.provider for row in rules.rows if row.provider), *(row["id"] for row in list_offered_models())]
        ),
        "channels": sorted({row.channel for row in rules.rows if row.channel}),
        "chat_groups": sorted({row.group for row in rules.rows if row.group}),
        "senders": sorted({row.sender for row in rules.rows if row.sender}),
        "scopes": ToolPolicy.Scope.choices,
        "profiles": list(PROFILES),
        "entries": suggest_entries(),
        "show": SHOW_CHOICES,
        "values": draft.values() if draft else {},
    }


def _list_later_changes(draft: PolicyDraft, rules: PolicyRules) -> list[RuleChange]:
    """Return what others have changed since the draft was started."""
    try:
        return diff_rules(policies.rules_at(draft.seen), rules)
    except NotFound:
        return []


def _replay_calls(request: PolicyRequest, params: Any, rules: PolicyRules) -> ReplayReport | None:
    days = params.get("replay", "")
    return replay_calls(rules, days=int(days)) if days in DAY_CHOICES and request.user.has_perm(VIEW_CALLS) else None
