"""Who may open the pages about approvals. Everybody sees the questions of their own chats; the service decides who may answer."""

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django_htmx.http import HttpResponseClientRefresh
from django_htmx.middleware import HtmxDetails

from clawsite.accounts.models import User

APPROVE = "accounts.approve_commands"
VIEW_ANY_SESSION = "accounts.view_any_session"
CHANGE_RULES = "tools_app.change_execrule"
VIEW_RULES = "tools_app.view_execrule"
VIEW_GRANTS = "tools_app.view_grant"
ADD_GRANT = "tools_app.add_grant"
CHANGE_GRANT = "tools_app.change_grant"

View = Callable[..., HttpResponse]


class ApprovalRequest(HttpRequest):
    """What `for_people` leaves."""

    user: User
    htmx: HtmxDetails


def require_any_permission(*any_of: str) -> Callable[[View], View]:
    """For who is signed in and has one of these permissions, if there are any. Answers are not kept by the browser."""

    def make(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            user = cast("User", request.user)
            if not user.is_authenticated and cast("ApprovalRequest", request).htmx:
                return HttpResponseClientRefresh()  # a sign-in form in the middle of a page would help nobody
            if user.is_authenticated and any_of and not any(user.has_perm(each) for each in any_of):
                raise PermissionDenied
            return signed_in(request, *args, **kwargs)

        signed_in = login_required(view)
        return cast("View", never_cache(guarded))

    return make
