"""Access to the approval pages. Users see the requests of their own chats; the service decides who may approve or deny."""

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
    """A request that passed `require_any_permission`."""

    user: User
    htmx: HtmxDetails


def require_any_permission(*any_of: str) -> Callable[[View], View]:
    """Require sign-in and, if any are given, one of these permissions. Responses are not cached."""

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            user = cast("User", request.user)
            if not user.is_authenticated and cast("ApprovalRequest", request).htmx:
                return HttpResponseClientRefresh()  # reload instead of swapping a sign-in form into the page
            if user.is_authenticated and any_of and not any(user.has_perm(each) for each in any_of):
                raise PermissionDenied
            return signed_in(request, *args, **kwargs)

        signed_in = login_required(view)
        return cast("View", never_cache(guarded))

    return decorate
