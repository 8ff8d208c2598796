"""The number next to “Approvals” in the top bar, for approvers. Counted only on pages that show it."""

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from clawsite.web.approvals.access import APPROVE
from clawsite.web.approvals.filters import list_pending


def pending_approvals(request: HttpRequest) -> dict[str, Any]:
    """Context processor: the number of pending approval requests, counted on first use."""
    return {"open_questions": SimpleLazyObject(lambda: _count_pending(request))}


def _count_pending(request: HttpRequest) -> int:
    user = getattr(request, "user", None)  # requests rejected early have none
    if user is None or not user.is_authenticated or not user.has_perm(APPROVE):
        return 0
    return list_pending(user).count()
