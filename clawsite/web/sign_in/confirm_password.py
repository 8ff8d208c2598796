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
from clawsite.web.redirects import inside
from clawsite.web.sign_in.pages import waiting_time

# Everything that is sent in the admin, and what pages of ours change of the same things.
GUARDED = {"policy-save", "policy-delete", "policy-restore", "let-ask", "make-token", "approve-pairing", "agree-to-hook", "resume"}
HELD = "held-"  # before the names of the fields that wait for the password
TARGET = "to"


class ConfirmationMiddleware(MiddlewareMixin):
    """After Django's authentication. Looks at what is sent only; reading is never held up."""

    def process_view(self, request: HttpRequest, *_view: object) -> HttpResponse | None:
        match = request.resolver_match
        if request.method != "POST" or match is None or not _is_guarded(match) or not request.user.is_authenticated:
            return None
        if recent_password.is_recent(request.session):
            return None
        return _ask(request, request.get_full_path(), request.POST)


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def confirm(request: HttpRequest) -> HttpResponse:
    """GET before a change over the socket, POST with the password; then what was held is sent on."""
    if not isinstance(request.user, User):
        return redirect("sign-in")
    to = inside(request, request.POST.get(TARGET) or request.GET.get("next"))
    if request.method != "POST":
        return _ask(request, to, QueryDict())
    held = _held(request.POST)
    if held and not _is_guarded(_match(to)):
        raise PermissionDenied
    address, name = throttle.address_of(request), request.user.get_username()
    try:
        throttle.admit(address, name)
    except Unavailable as wait:
        return _ask(request, to, held, trouble=waiting_time(wait)[1], status=429)
    if not request.user.check_password(request.POST.get("password", "")):
        audit_log.record(
            "sign_in.failed", actor=acting.account(request.user), subject=("account", request.user.pk), address=address
        )
        return _ask(request, to, held, trouble=_("Wrong password. Passwords are case-sensitive."), status=400)
    throttle.succeeded(address, name, admitted=True)
    recent_password.confirm(request.session)
    audit_log.record("sign_in.confirmed", actor=acting.account(request.user), subject=("account", request.user.pk), address=address)
    if not held:
        return redirect(to)
    return render(request, "entry/go_on.html", {"to": to, "fields": _pairs(held)})


def _ask(request: HttpRequest, to: str, held: QueryDict, *, trouble: str = "", status: int = 403) -> HttpResponse:
    back = inside(request, request.headers.get("Referer"))
    context = {"to": to, "fields": _pairs(held), "trouble": trouble, "prefix": HELD, "back": back}
    by_htmx = request.headers.get("HX-Request") == "true"
    page = render(request, "entry/confirm.html", context, status=200 if by_htmx or request.method == "GET" else status)
    if by_htmx:  # it shows no answer but a good one, and would put it into a corner of the page
        page["HX-Retarget"], page["HX-Reswap"] = "body", "innerHTML"
    return page


def _is_guarded(match: ResolverMatch) -> bool:
    return "admin" in match.namespaces or match.url_name in GUARDED


def _match(path: str) -> ResolverMatch:
    try:
        return resolve(path.partition("?")[0])
    except Resolver404:
        raise Http404 from None


def _held(sent: QueryDict) -> QueryDict:
    held = QueryDict(mutable=True)
    for name, values in sent.lists():
        if name.startswith(HELD):
            held.setlist(name.removeprefix(HELD), values)
    return held


def _pairs(held: QueryDict) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, values in held.lists() if name != "csrfmiddlewaretoken" for value in values]
