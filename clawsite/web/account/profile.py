"""The account page: profile, password, access tokens, signed-in browsers. Devices are in `account.devices`, webhooks in
`account.webhooks`, language and theme in `web.preferences`.

The page has several forms; each posts to a separate URL and redirects back to its section. Every query starts from the
signed-in user, so other users' objects are never found.
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
from clawsite.web.account.common import SignedInRequest, format_time_ago, redirect_to_section, scope_labels
from clawsite.web.account.devices import device_context
from clawsite.web.account.forms import AccountTokenForm, NewPasswordForm, ProfileForm
from clawsite.web.account.webhooks import webhook_context
from clawsite.web.sign_in.pages import describe_wait

USED_FORM_KEY = "form_used"
MAX_ENDED_SHOWN = 10


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
    return _render_page(request)


@require_POST
@login_required
def change_profile(request: SignedInRequest) -> HttpResponse:
    # A copy, so that the top bar shows the stored name and not a rejected one.
    form = ProfileForm(request.POST, instance=User.objects.get(pk=request.user.pk))
    if not form.is_valid():
        return _render_page(request, profile=form)
    changed = {name: form.cleaned_data[name] for name in form.Meta.fields}
    with transaction.atomic():
        User.objects.filter(pk=request.user.pk).update(**changed)  # permissions don't change, so open sockets need not be notified
        audit_log.record(
            "account.changed", subject=("account", request.user.pk), name=request.user.username, fields=sorted(form.changed_data)
        )
    messages.success(request, _("Saved."))
    return redirect_to_section("profile")


@sensitive_post_parameters()
@require_POST
@login_required
def change_password(request: SignedInRequest) -> HttpResponse:
    """Require the old password, so an unattended browser is not enough. Guessing is throttled as at sign-in."""
    address, name = throttle.address_of_request(request), request.user.get_username()
    try:
        throttle.check_and_count(address, name)
    except Unavailable as wait:
        seconds, message = describe_wait(wait)
        response = _render_page(request, password_wait=message, status=429)
        response["Retry-After"] = str(seconds)
        return response
    form = NewPasswordForm(request.user, request.POST)
    if "old_password" not in form.errors:
        throttle.record_success(address, name, admitted=True)
    if not form.is_valid():
        return _render_page(request, password=form)
    with transaction.atomic():
        update_session_auth_hash(request, form.save())
        browsers.record_browser(request, request.user)
        ended = browsers.sign_out_others(request, request.user)
    notice = ngettext("%d other browser was signed out.", "%d other browsers were signed out.", ended) % ended
    messages.success(request, " ".join([_("Your password was changed."), *([notice] if ended else [])]))
    return redirect_to_section("password")


@never_cache
@require_POST
@login_required
def create_token(request: SignedInRequest) -> HttpResponse:
    """Show the secret only in this response, so don't redirect. Reloading the page doesn't create a second token."""
    form = AccountTokenForm(request.user, request.POST)
    if not form.is_valid():
        return _render_page(request, token=form)
    values = form.cleaned_data
    if request.session.get(USED_FORM_KEY) == values["form_id"]:
        messages.info(request, _("This access token was already created. Its secret is shown only once."))
        return redirect_to_section("tokens")
    token, secret = tokens.issue_token(request.user, values["name"], values["scopes"], form.expires_at())
    request.session[USED_FORM_KEY] = values["form_id"]
    return render(request, "account/token_issued.html", {"token": token, "secret": secret, "may": scope_labels(token.scopes)})


@require_POST
@login_required
def revoke_token(request: SignedInRequest, pk: int) -> HttpResponse:
    token = get_object_or_404(request.user.access_tokens, pk=pk)
    tokens.revoke_token(token)
    messages.success(request, _("“%s” was revoked. Programs that used it are disconnected.") % token.name)
    return redirect_to_section("tokens")


@require_POST
@login_required
def sign_out_browser(request: SignedInRequest, pk: int) -> HttpResponse:
    if not browsers.sign_out_browser(request.user, pk):
        raise Http404
    messages.success(request, _("That browser was signed out."))
    return redirect_to_section("browsers")


@require_POST
@login_required
def sign_out_others(request: SignedInRequest) -> HttpResponse:
    ended = browsers.sign_out_others(request, request.user)
    notice = ngettext("%d other browser was signed out.", "%d other browsers were signed out.", ended) % ended
    messages.success(request, notice if ended else _("No other browser was signed in."))
    return redirect_to_section("browsers")


def _render_page(request: SignedInRequest, *, status: int = 0, password_wait: str = "", **bound: forms.BaseForm) -> HttpResponse:
    """Render the page with all its forms; `bound` holds those with validation errors."""
    user = request.user
    issued = list(user.access_tokens.select_related("made_with").order_by("-created_at"))
    valid = [token for token in issued if not token.has_ended]
    context: dict[str, Any] = {
        "profile": bound.get("profile") or ProfileForm(instance=user),
        "password": bound.get("password") or NewPasswordForm(user),
        "password_wait": password_wait,
        "token": bound.get("token") or AccountTokenForm(user),
        "tokens": [TokenRow(token, scope_labels(token.scopes), format_time_ago(token.last_used_at)) for token in valid],
        "ended_tokens": [token for token in issued if token not in valid][:MAX_ENDED_SHOWN],
        "browsers": [_browser_row(row, request) for row in browsers.list_browsers(user)],
        "groups": user.groups.order_by("name"),
        **device_context(user),
        **webhook_context(user),
    }
    return render(request, "account/page.html", context, status=status or (400 if bound else 200))


def _browser_row(row: BrowserSession, request: HttpRequest) -> BrowserRow:
    agent = row.user_agent
    return BrowserRow(
        row=row,
        name=user_agents.parse_browser(agent) or _("Unknown browser"),
        system=user_agents.parse_system(agent),
        handheld=user_agents.is_handheld(agent),
        seen=format_time_ago(row.last_seen_at),
        is_this=row.session_id == request.session.session_key,
    )
