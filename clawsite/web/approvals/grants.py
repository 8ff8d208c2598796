"""The grants page: what runs without approval, who granted it, for how long, and the form to revoke it."""

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.db.models import Q
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from clawsite.accounts.models import User
from clawsite.infra.errors import ClawError, NotFound
from clawsite.web.approvals.access import ADD_GRANT, APPROVE, CHANGE_GRANT, VIEW_GRANTS, ApprovalRequest, require_any_permission
from clawsite.web.approvals.card import ChatLink, chat_link_for
from clawsite.web.approvals.labels import describe_grant_scope
from clawsite.web.visible_text import to_visible_html
from sessions_app.admissions import format_duration
from sessions_app.models import Session
from tools_app.approvals import grants
from tools_app.approvals.allowed_by import to_wire_grant
from tools_app.models import Grant

PER_PAGE = 50


@require_any_permission(APPROVE, VIEW_GRANTS)
@require_safe
def list_grants(request: ApprovalRequest) -> HttpResponse:
    past = request.GET.get("past") == "1"
    page = request.GET.get("page", "1")
    if not (page.isdecimal() and 0 < int(page) < 100_000):
        raise BadRequest
    queryset = Grant.objects.exclude(grants.is_active_filter()) if past else Grant.objects.filter(grants.is_active_filter())
    if program := request.GET.get("program", "").strip()[:200]:
        queryset = queryset.filter(Q(entries__icontains=program) | Q(line__icontains=program))
    start = (int(page) - 1) * PER_PAGE
    rows = list(
        queryset.select_related("owner", "seconded_by", "revoked_by").order_by("-created_at", "-id")[start : start + PER_PAGE + 1]
    )
    chats = _find_chats(request.user, rows)
    context = {
        "grants": [_grant_row(row, chats.get(row.subject)) for row in rows[:PER_PAGE]],
        "past": past,
        "program": program,
        "page": int(page),
        "more": len(rows) > PER_PAGE,
        "may_revoke": request.user.has_perm(APPROVE) or request.user.has_perm(CHANGE_GRANT),
        "may_add": request.user.has_perm(ADD_GRANT) and request.user.is_staff,
    }
    return render(request, "approvals/grants.html", context)


@require_any_permission(APPROVE, CHANGE_GRANT)
@require_POST
def revoke_grant(request: ApprovalRequest, pk: int) -> HttpResponse:
    try:
        grants.revoke_grant(pk, by=request.user)
    except NotFound as error:
        raise Http404 from error
    except ClawError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, _("Grant revoked. The next matching command will need approval."))
    return redirect("grants")


def _find_chats(user: User, rows: Sequence[Grant]) -> dict[str, ChatLink]:
    """Return links to the chats that grants apply to and the user may read, by session ID."""
    session_ids = {row.subject for row in rows if row.scope == Grant.Scope.SESSION}
    sessions = Session.objects.for_user(user).filter(pk__in=session_ids) if session_ids else []
    return {str(session.pk): chat_link_for(user, session) for session in sessions}


def _grant_row(grant: Grant, chat: ChatLink | None) -> dict[str, Any]:
    entries = [
        {
            "pattern": to_visible_html(each["pattern"]),
            "shape": None if each.get("shape") is None else to_visible_html(" ".join(each["shape"])),
        }
        for each in grant.entries
    ]
    return {
        "row": grant,
        "entries": entries,
        "line": to_visible_html(grant.line),
        "where": describe_grant_scope(grant),
        "chat": chat,
        "lasts": format_duration(to_wire_grant(grant)["seconds"] or 0) if grant.approval_id else "",
        "given_uses": to_wire_grant(grant)["uses"],
        "directory": to_visible_html(grant.subject) if grant.scope == Grant.Scope.DIRECTORY else "",
        "ended": _describe_end(grant),
        "ended_at": grant.revoked_at or (grant.last_used_at if grant.uses_left == 0 else grant.expires_at),
    }


def _describe_end(grant: Grant) -> str:
    if grant.revoked_at:
        return _("revoked by %(who)s") % {"who": grant.revoked_by.get_full_name() if grant.revoked_by else "–"}
    return _("used up") if grant.uses_left == 0 else _("expired")
