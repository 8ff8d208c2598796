"""The versions of the policy: who changed what and when, and the way back to one of them."""

from itertools import pairwise
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from clawsite.infra.errors import ClawError, Conflict, NotFound
from clawsite.web.policies.access import CHANGE_POLICY, PolicyRequest, require_permissions
from clawsite.web.policies.diff import diff_rules, diff_tests
from tools_app.models import PolicyVersion
from tools_app.policy.rules import PolicyRules
from tools_app.policy_store import policies

PER_PAGE = 25


@require_permissions()
@require_safe
def list_versions(request: PolicyRequest) -> HttpResponse:
    """Newest first, each with what it changed."""
    before = request.GET.get("before", "")
    if before and not (before.isdecimal() and len(before) < 10):
        raise Http404
    found = PolicyVersion.objects.select_related("changed_by").order_by("-number")
    if before:
        found = found.filter(number__lt=int(before))
    rows = list(found[: PER_PAGE + 1])
    # One more than is shown: a version's change is its difference to the one before it.
    listed = [_version_row(version, earlier) for version, earlier in pairwise([*rows, None]) if version][:PER_PAGE]
    context = {
        "versions": listed,
        "older": rows[PER_PAGE - 1].number if len(rows) > PER_PAGE else None,
        "before": before,
        "now": policies.current_rules().version,
        "may_change": request.user.has_perm(CHANGE_POLICY),
    }
    return render(request, "policies/history.html", context)


@require_permissions()
@require_safe
def show_version(request: PolicyRequest, number: int) -> HttpResponse:
    return _render_page(request, number)


@require_permissions(CHANGE_POLICY)
@require_POST
def restore_version(request: PolicyRequest, number: int) -> HttpResponse:
    """Make its rows those of a new version, if nobody changed anything since the page was shown."""
    seen = request.POST.get("seen", "")
    if not seen.isdecimal():
        raise Http404
    try:
        made = policies.restore_version(number, changed_by=request.user, expected_version=int(seen[:9]))
    except NotFound as gone:
        raise Http404 from gone
    except Conflict as conflict:
        return _render_page(request, number, problem=conflict.message, status=409)
    except ClawError as refused:
        return _render_page(request, number, problem=refused.message, status=422)
    messages.success(request, _("Version %(old)d was restored as version %(new)d.") % {"old": number, "new": made})
    return redirect("policy-history")


def _render_page(request: PolicyRequest, number: int, *, problem: str = "", status: int = 200) -> HttpResponse:
    """What this version changed, all it says, and what restoring it would change."""
    row = PolicyVersion.objects.select_related("changed_by").filter(number=number).first()
    if row is None:
        raise Http404
    earlier = PolicyVersion.objects.filter(number__lt=number).order_by("-number").first()
    rules, now = _read_rules(row), policies.current_rules()
    context = {
        **_version_row(row, earlier),
        "now": now.version,
        "rows": diff_rules(PolicyRules(0), rules),
        "restoring": diff_rules(now, rules),
        "problem": problem,
        "may_change": request.user.has_perm(CHANGE_POLICY),
    }
    return render(request, "policies/version.html", context, status=status)


def _version_row(row: PolicyVersion, earlier: PolicyVersion | None) -> dict[str, Any]:
    before = _read_rules(earlier) if earlier else PolicyRules(0)
    tests = diff_tests(earlier.tests if earlier else [], row.tests)
    return {"version": row, "changes": diff_rules(before, _read_rules(row)), "tests": tests, "first": earlier is None}


def _read_rules(row: PolicyVersion) -> PolicyRules:
    return PolicyRules.from_snapshot(row.number, row.snapshot)
