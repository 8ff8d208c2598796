"""Access to the policy pages. Denied pages respond with 403; a tool call the user may not see responds with 404."""

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
    """A request that passed `require_permissions`."""

    user: User
    htmx: HtmxDetails


def require_permissions(*permissions: str) -> Callable[[View], View]:
    """Require permission to view the policy plus these permissions. Responses are not cached."""

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            user = cast("User", request.user)
            if not user.is_authenticated and cast("PolicyRequest", request).htmx:
                return HttpResponseClientRefresh()  # reload instead of swapping a sign-in form into the page
            if user.is_authenticated and not user.has_perms([VIEW_POLICY, *permissions]):
                raise PermissionDenied
            return signed_in(request, *args, **kwargs)

        signed_in = login_required(view)
        return cast("View", never_cache(guarded))

    return decorate


def require_permission_or_404(view: View) -> View:
    """Like `require_permissions`, but respond with 404, so that users without access don't learn whether an object exists."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user = cast("User", request.user)
        if user.is_authenticated and not user.has_perm(VIEW_POLICY):
            raise Http404
        return signed_in(request, *args, **kwargs)

    signed_in = login_required(view)
    return cast("View", never_cache(guarded))
