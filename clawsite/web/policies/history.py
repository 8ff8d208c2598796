"""Policy versions: who changed what and when, and restoring a version."""

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
    """List versions, newest first, with their changes."""
    before = request.GET.get("before", "")
    if before and not (before.isdecimal() and len(before) < 10):
        raise Http404
    versions = PolicyVersion.objects.select_related("changed_by").order_by("-number")
    if before:
        versions = versions.filter(number__lt=int(before))
    rows = list(versions[: PER_PAGE + 1])
    # Load one more than is shown, because a version's changes are its difference from the previous one.
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
    """Publish the version's rules as a new version, unless the policy has changed since the page was rendered."""
    seen = request.POST.get("seen", "")
    if not seen.isdecimal():
        raise Http404
    try:
        new_version = policies.restore_version(number, changed_by=request.user, expected_version=int(seen[:9]))
    except NotFound as error:
        raise Http404 from error
    except Conflict as conflict:
        return _render_page(request, number, problem=conflict.message, status=409)
    except ClawError as error:
        return _render_page(request, number, problem=error.message, status=422)
    messages.success(request, _("Version %(old)d was restored as version %(new)d.") % {"old": number, "new": new_version})
    return redirect("policy-history")


def _render_page(request: PolicyRequest, number: int, *, problem: str = "", status: int = 200) -> HttpResponse:
    """Show a version's changes, all its rules, and what restoring it would change."""
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
