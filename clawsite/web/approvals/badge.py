"""The number beside “Approvals” in the bar above the pages, for those who may approve. Counted only where it is shown."""

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from clawsite.web.approvals.access import APPROVE
from clawsite.web.approvals.filters import list_pending


def open_questions(request: HttpRequest) -> dict[str, Any]:
    """For every template."""
    return {"open_questions": SimpleLazyObject(lambda: _count_pending(request))}


def _count_pending(request: HttpRequest) -> int:
    user = getattr(request, "user", None)  # a request that was refused early has none
    if user is None or not user.is_authenticated or not user.has_perm(APPROVE):
        return 0
    return list_pending(user).count()
