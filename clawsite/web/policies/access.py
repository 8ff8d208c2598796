"""Who may look at the policy and who may change it. Pages say no in words; a call that one may not look at is not found."""

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django_htmx.http import HttpResponseClientRefresh
from django_htmx.middleware import HtmxDetails

from clawsite.accounts.models import User

VIEW_POLICY = "tools_app.view_toolpolicy"
CHANGE_POLICY = "tools_app.change_toolpolicy"
DELETE_POLICY = "tools_app.delete_toolpolicy"
VIEW_CALLS = "sessions_app.view_toolcall"

View = Callable[..., HttpResponse]


class PolicyRequest(HttpRequest):
    """What `needs` leaves."""

    user: User
    htmx: HtmxDetails


def require_permissions(*permissions: str) -> Callable[[View], View]:
    """For people who may look at the policy and have these permissions too. Answers are not kept by the browser."""

    def make(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            user = cast("User", request.user)
            if not user.is_authenticated and cast("PolicyRequest", request).htmx:
                return HttpResponseClientRefresh()  # a sign-in form in the middle of a page would help nobody
            if user.is_authenticated and not user.has_perms([VIEW_POLICY, *permissions]):
                raise PermissionDenied
            return signed_in(request, *args, **kwargs)

        signed_in = login_required(view)
        return cast("View", never_cache(guarded))

    return make


def require_permission_or_404(view: View) -> View:
    """The same for pages about one thing: whoever may not look at the policy does not learn whether it is there."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user = cast("User", request.user)
        if user.is_authenticated and not user.has_perm(VIEW_POLICY):
            raise Http404
        return signed_in(request, *args, **kwargs)

    signed_in = login_required(view)
    return cast("View", never_cache(guarded))
