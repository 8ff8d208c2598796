"""Password confirmation, required to change rules, permissions or settings if the password was last entered too long ago.

The submitted form is held in the page and sent after the password is confirmed, so nothing is lost. Freezing, denying and
revoking never need confirmation.
"""

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from clawsite.accounts.models import User
from clawsite.accounts.sign_in import recent_password, throttle
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.errors import Unavailable
from clawsite.web.redirects import safe_redirect_url
from clawsite.web.sign_in.pages import describe_wait

# In addition to every POST in the admin: pages outside the admin that change the same things.
GUARDED_URLS = {
    "policy-save",
    "policy-delete",
    "policy-restore",
    "let-ask",
    "make-token",
    "approve-pairing",
    "agree-to-hook",
    "resume",
}
HELD_PREFIX = "held-"  # prefix of the held form's field names
TARGET_FIELD = "to"


class ConfirmationMiddleware(MiddlewareMixin):
    """Must come after Django's authentication. Applies to POST only; reading never needs confirmation."""

    def process_view(self, request: HttpRequest, *_view: object) -> HttpResponse | None:
        match = request.resolver_match
        if request.method != "POST" or match is None or not _is_guarded(match) or not request.user.is_authenticated:
            return None
        if recent_password.is_recent(request.session):
            return None
        return _render_form(request, request.get_full_path(), request.POST)


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def confirm_password(request: HttpRequest) -> HttpResponse:
    """Show the form (GET, before a change over the socket) or check the password (POST) and resubmit the held form."""
    if not isinstance(request.user, User):
        return redirect("sign-in")
    target = safe_redirect_url(request, request.POST.get(TARGET_FIELD) or request.GET.get("next"))
    if request.method != "POST":
        return _render_form(request, target, QueryDict())
    held = _read_held(request.POST)
    if held and not _is_guarded(_resolve_path(target)):
        raise PermissionDenied
    address, name = throttle.address_of_request(request), request.user.get_username()
    try:
        throttle.check_and_count(address, name)
    except Unavailable as wait:
        return _render_form(request, target, held, problem=describe_wait(wait)[1], status=429)
    if not request.user.check_password(request.POST.get("password", "")):
        audit_log.record(
            "sign_in.failed", actor=acting.actor_for_user(request.user), subject=("account", request.user.pk), address=address
        )
        return _render_form(request, target, held, problem=_("Wrong password. Passwords are case-sensitive."), status=400)
    throttle.record_success(address, name, admitted=True)
    recent_password.record_confirmation(request.session)
    audit_log.record(
        "sign_in.confirmed", actor=acting.actor_for_user(request.user), subject=("account", request.user.pk), address=address
    )
    if not held:
        return redirect(target)
    return render(request, "sign_in/password_confirmed.html", {"to": target, "fields": _held_pairs(held)})


def _render_form(request: HttpRequest, target: str, held: QueryDict, *, problem: str = "", status: int = 403) -> HttpResponse:
    back = safe_redirect_url(request, request.headers.get("Referer"))
    context = {"to": target, "fields": _held_pairs(held), "trouble": problem, "prefix": HELD_PREFIX, "back": back}
    by_htmx = request.headers.get("HX-Request") == "true"
    page = render(request, "sign_in/confirm_password.html", context, status=200 if by_htmx or request.method == "GET" else status)
    if by_htmx:  # htmx ignores error statuses and would swap the form into part of the page
        page["HX-Retarget"], page["HX-Reswap"] = "body", "innerHTML"
    return page


def _is_guarded(match: ResolverMatch) -> bool:
    return "admin" in match.namespaces or match.url_name in GUARDED_URLS


def _resolve_path(path: str) -> ResolverMatch:
    try:
        return resolve(path.partition("?")[0])
    except Resolver404:
        raise Http404 from None


def _read_held(submitted: QueryDict) -> QueryDict:
    held = QueryDict(mutable=True)
    for name, values in submitted.lists():
        if name.startswith(HELD_PREFIX):
            held.setlist(name.removeprefix(HELD_PREFIX), values)
    return held


def _held_pairs(held: QueryDict) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, values in held.lists() if name != "csrfmiddlewaretoken" for value in values]
