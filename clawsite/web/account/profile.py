"""One's own account: profile, password, tokens for programs, signed-in browsers. Devices are in `web.account_devices`,
webhooks in `web.account_hooks`.

One page of several forms; each is sent to its own address and comes back to its section. Language and colours are changed
in `web.preferences`. What somebody else's account has is not found here: every query starts from the person who asks.
"""

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from clawsite.accounts import tokens
from clawsite.accounts.models import AccessToken, BrowserSession, User
from clawsite.accounts.sign_in import browsers, throttle, user_agents
from clawsite.infra.audit import log as audit_log
from clawsite.infra.errors import Unavailable
from clawsite.web.account.common import SignedInRequest, ago, back_to, scopes_in_words
from clawsite.web.account.devices import devices_of
from clawsite.web.account.forms import NewPasswordForm, NewTokenForm, ProfileForm
from clawsite.web.account.webhooks import hooks_of
from clawsite.web.sign_in.pages import waiting_time

FORM_USED = "form_used"
ENDED_SHOWN = 10


@dataclass(frozen=True, slots=True)
class BrowserRow:
    row: BrowserSession
    name: str
    system: str
    handheld: bool
    seen: str
    is_this: bool


@dataclass(frozen=True, slots=True)
class TokenRow:
    token: AccessToken
    may: list[str]
    used: str


@never_cache
@require_safe
@login_required
def account(request: SignedInRequest) -> HttpResponse:
    return _page(request)


@require_POST
@login_required
def change_profile(request: SignedInRequest) -> HttpResponse:
    # A copy: the page's bar shows the name that is stored, not the one that was refused.
    form = ProfileForm(request.POST, instance=User.objects.get(pk=request.user.pk))
    if not form.is_valid():
        return _page(request, profile=form)
    changed = {name: form.cleaned_data[name] for name in form.Meta.fields}
    with transaction.atomic():
        User.objects.filter(pk=request.user.pk).update(**changed)  # no rights change, so no socket needs to know
        audit_log.record(
            "account.changed", subject=("account", request.user.pk), name=request.user.username, fields=sorted(form.changed_data)
        )
    messages.success(request, _("Saved."))
    return back_to("profile")


@sensitive_post_parameters()
@require_POST
@login_required
def change_password(request: SignedInRequest) -> HttpResponse:
    """Needs the old one, so an unattended browser is not enough; guessing it is slowed like signing in."""
    address, name = throttle.address_of(request), request.user.get_username()
    try:
        throttle.admit(address, name)
    except Unavailable as wait:
        seconds, told = waiting_time(wait)
        response = _page(request, password_wait=told, status=429)
        response["Retry-After"] = str(seconds)
        return response
    form = NewPasswordForm(request.user, request.POST)
    if "old_password" not in form.errors:
        throttle.succeeded(address, name, admitted=True)
    if not form.is_valid():
        return _page(request, password=form)
    with transaction.atomic():
        update_session_auth_hash(request, form.save())
        browsers.note(request, request.user)
        ended = browsers.keep_only(request, request.user)
    told = ngettext("%d other browser was signed out.", "%d other browsers were signed out.", ended) % ended
    messages.success(request, " ".join([_("Your password was changed."), *([told] if ended else [])]))
    return back_to("password")


@never_cache
@require_POST
@login_required
def make_token(request: SignedInRequest) -> HttpResponse:
    """The secret is in this one answer and nowhere else, so it is no redirect; a reload makes no second token."""
    form = NewTokenForm(request.user, request.POST)
    if not form.is_valid():
        return _page(request, token=form)
    chosen = form.cleaned_data
    if request.session.get(FORM_USED) == chosen["form_id"]:
        messages.info(request, _("This access token was already created. Its secret is shown only once."))
        return back_to("tokens")
    made, secret = tokens.issue_token(request.user, chosen["name"], chosen["scopes"], form.expires_at())
    request.session[FORM_USED] = chosen["form_id"]
    return render(request, "account/token_issued.html", {"token": made, "secret": secret, "may": scopes_in_words(made.scopes)})


@require_POST
@login_required
def revoke(request: SignedInRequest, pk: int) -> HttpResponse:
    token = get_object_or_404(request.user.access_tokens, pk=pk)
    tokens.revoke_token(token)
    messages.success(request, _("“%s” was revoked. Programs that used it are disconnected.") % token.name)
    return back_to("tokens")


@require_POST
@login_required
def sign_out_browser(request: SignedInRequest, pk: int) -> HttpResponse:
    if not browsers.sign_out(request.user, pk):
        raise Http404
    messages.success(request, _("That browser was signed out."))
    return back_to("browsers")


@require_POST
@login_required
def sign_out_others(request: SignedInRequest) -> HttpResponse:
    ended = browsers.keep_only(request, request.user)
    told = ngettext("%d other browser was signed out.", "%d other browsers were signed out.", ended) % ended
    messages.success(request, told if ended else _("No other browser was signed in."))
    return back_to("browsers")


def _page(request: SignedInRequest, *, status: int = 0, password_wait: str = "", **bound: forms.BaseForm) -> HttpResponse:
    """The page with all its forms; `bound` are those that came back with something wrong."""
    user = request.user
    made = list(user.access_tokens.select_related("made_with").order_by("-created_at"))
    valid = [token for token in made if not token.has_ended]
    context: dict[str, Any] = {
        "profile": bound.get("profile") or ProfileForm(instance=user),
        "password": bound.get("password") or NewPasswordForm(user),
        "password_wait": password_wait,
        "token": bound.get("token") or NewTokenForm(user),
        "tokens": [TokenRow(token, scopes_in_words(token.scopes), ago(token.last_used_at)) for token in valid],
        "ended_tokens": [token for token in made if token not in valid][:ENDED_SHOWN],
        "browsers": [_browser_row(row, request) for row in browsers.browsers_of(user)],
        "groups": user.groups.order_by("name"),
        **devices_of(user),
        **hooks_of(user),
    }
    return render(request, "account/page.html", context, status=status or (400 if bound else 200))


def _browser_row(row: BrowserSession, request: HttpRequest) -> BrowserRow:
    agent = row.user_agent
    return BrowserRow(
        row=row,
        name=user_agents.browser_of(agent) or _("Unknown browser"),
        system=user_agents.system_of(agent),
        handheld=user_agents.is_handheld(agent),
        seen=ago(row.last_seen_at),
        is_this=row.session_id == request.session.session_key,
    )
