"""“Confirm that it is you”: asked before a change of rules, rights or settings when the password was typed too long ago.

What was about to be saved is kept in the page and sent once the password is right, so nothing is lost. The pages that stop,
refuse and take back are never held up.
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

# Everything that is sent in the admin, and what pages of ours change of the same things.
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
HELD_PREFIX = "held-"  # before the names of the fields that wait for the password
TARGET_FIELD = "to"


class ConfirmationMiddleware(MiddlewareMixin):
    """After Django's authentication. Looks at what is sent only; reading is never held up."""

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
    """GET before a change over the socket, POST with the password; then what was held is sent on."""
    if not isinstance(request.user, User):
        return redirect("sign-in")
    to = safe_redirect_url(request, request.POST.get(TARGET_FIELD) or request.GET.get("next"))
    if request.method != "POST":
        return _render_form(request, to, QueryDict())
    held = _read_held(request.POST)
    if held and not _is_guarded(_resolve_path(to)):
        raise PermissionDenied
    address, name = throttle.address_of_request(request), request.user.get_username()
    try:
        throttle.check_and_count(address, name)
    except Unavailable as wait:
        return _render_form(request, to, held, trouble=describe_wait(wait)[1], status=429)
    if not request.user.check_password(request.POST.get("password", "")):
        audit_log.record(
            "sign_in.failed", actor=acting.actor_for_user(request.user), subject=("account", request.user.pk), address=address
        )
        return _render_form(request, to, held, trouble=_("Wrong password. Passwords are case-sensitive."), status=400)
    throttle.record_success(address, name, admitted=True)
    recent_password.record_confirmation(request.session)
    audit_log.record(
        "sign_in.confirmed", actor=acting.actor_for_user(request.user), subject=("account", request.user.pk), address=address
    )
    if not held:
        return redirect(to)
    return render(request, "sign_in/password_confirmed.html", {"to": to, "fields": _held_pairs(held)})


def _render_form(request: HttpRequest, to: str, held: QueryDict, *, trouble: str = "", status: int = 403) -> HttpResponse:
    back = safe_redirect_url(request, request.headers.get("Referer"))
    context = {"to": to, "fields": _held_pairs(held), "trouble": trouble, "prefix": HELD_PREFIX, "back": back}
    by_htmx = request.headers.get("HX-Request") == "true"
    page = render(request, "sign_in/confirm_password.html", context, status=200 if by_htmx or request.method == "GET" else status)
    if by_htmx:  # it shows no answer but a good one, and would put it into a corner of the page
        page["HX-Retarget"], page["HX-Reswap"] = "body", "innerHTML"
    return page


def _is_guarded(match: ResolverMatch) -> bool:
    return "admin" in match.namespaces or match.url_name in GUARDED_URLS


def _resolve_path(path: str) -> ResolverMatch:
    try:
        return resolve(path.partition("?")[0])
    except Resolver404:
        raise Http404 from None


def _read_held(sent: QueryDict) -> QueryDict:
    held = QueryDict(mutable=True)
    for name, values in sent.lists():
        if name.startswith(HELD_PREFIX):
            held.setlist(name.removeprefix(HELD_PREFIX), values)
    return held


def _held_pairs(held: QueryDict) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, values in held.lists() if name != "csrfmiddlewaretoken" for value in values]
