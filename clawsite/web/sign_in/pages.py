"""Coming in and going out: the sign-in page, sign-out, and the page of the first administrator.

Who has to wait is decided by `accounts.throttle`, before a password is looked at.
"""

import math
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth import login, logout
from django.contrib.auth.forms import AuthenticationForm, BaseUserCreationForm
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from clawsite.accounts import change_notices
from clawsite.accounts.models import User
from clawsite.accounts.sign_in import first_admin, throttle
from clawsite.infra.errors import Conflict, NotFound, Unavailable
from clawsite.web import preferences
from clawsite.web.redirects import safe_redirect_url

FIRST_ADMIN_KEY = "first_admin_digest"
BACKEND = "django.contrib.auth.backends.ModelBackend"
NAME_TAKEN = _("This username is already taken; choose another.")
LINK_INVALID = _("This link has been used, has expired, or was replaced by a newer one.")


class SignInForm(AuthenticationForm):
    error_messages = {
        **AuthenticationForm.error_messages,
        "invalid_login": _("Wrong username or password. Both are case-sensitive."),
    }

    def confirm_login_allowed(self, user: Any) -> None:
        super().confirm_login_allowed(user)
        if user.is_service:
            raise self.get_invalid_login_error()


class FirstAdminForm(BaseUserCreationForm):  # type: ignore[type-arg]  # generic in the stubs only, not when it runs
    class Meta:
        model = User
        fields = ("username",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # One line instead of Django's seven; the rules themselves stay, and a broken one is named.
        self.fields["username"].help_text = self.fields["password2"].help_text = ""
        self.fields["password1"].help_text = _("At least 8 characters and not easy to guess.")


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    wanted = safe_redirect_url(request, request.POST.get("next") or request.GET.get("next"))
    if request.method != "POST":
        if request.user.is_authenticated:
            return redirect(wanted)
        return _sign_in_page(request, SignInForm(request), wanted)
    address, name = throttle.address_of_request(request), request.POST.get("username", "")
    try:
        throttle.check_and_count(address, name)
    except Unavailable as wait:
        return _wait_page(request, wait, wanted)
    form = SignInForm(request, data=request.POST)
    if not form.is_valid():
        return _sign_in_page(request, form, wanted, status=400)
    throttle.record_success(address, name, admitted=True)
    user = form.get_user()
    login(request, user)
    response = redirect(wanted)
    preferences.set_preference_cookies(response, theme=user.theme, language=user.language or None)
    return response


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    user_pk = request.user.pk
    logout(request)
    if user_pk is not None:
        change_notices.notify_account_changed(user_pk)  # open sockets of this browser close
    return redirect(settings.LOGOUT_REDIRECT_URL)


@require_safe
def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """In place of the admin's own form, which knows no waiting times."""
    wanted = safe_redirect_url(request, request.GET.get("next"), default=reverse("admin:index"))
    if not request.user.is_authenticated:
        return redirect(f"{settings.LOGIN_URL}?{urlencode({'next': wanted})}")
    if not request.user.is_staff:
        raise PermissionDenied  # sending them to sign-in again would send them round in circles
    return redirect(wanted)


@never_cache
@require_safe
def first_admin_link(request: HttpRequest, token: str) -> HttpResponse:
    """Exchange the link for a session at once, so that the token stands in no later address, referrer or log line."""
    digest = first_admin.hash_token(token)
    if not first_admin.is_link_open(digest):
        return _render_invalid_link(request)
    request.session[FIRST_ADMIN_KEY] = digest
    return redirect("first-admin")


@sensitive_post_parameters("password1", "password2")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def first_admin_page(request: HttpRequest) -> HttpResponse:
    digest = request.session.get(FIRST_ADMIN_KEY, "")
    if not first_admin.is_link_open(digest):
        return _render_invalid_link(request)
    form = FirstAdminForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            user = first_admin.use_link(digest, form.cleaned_data["username"], form.cleaned_data["password1"])
        except (Conflict, NotFound) as error:
            form.add_error(None, NAME_TAKEN if isinstance(error, Conflict) else LINK_INVALID)
        else:
            login(request, user, backend=BACKEND)
            return redirect("chat")
    return render(request, "sign_in/first_admin.html", {"form": form}, status=400 if form.errors else 200)


def _sign_in_page(request: HttpRequest, form: forms.Form, wanted: str, status: int = 200, **context: Any) -> HttpResponse:
    return render(request, "sign_in/page.html", {"form": form, "next": wanted, **context}, status=status)


def _wait_page(request: HttpRequest, wait: Unavailable, wanted: str) -> HttpResponse:
    seconds, told = describe_wait(wait)
    form = SignInForm(request, initial={"username": request.POST.get("username", "")})
    response = _sign_in_page(request, form, wanted, status=429, wait=told)
    response["Retry-After"] = str(seconds)
    return response


def describe_wait(wait: Unavailable) -> tuple[int, str]:
    """How long somebody has to wait: in seconds, and in words."""
    seconds = math.ceil((wait.retry_after_ms or 0) / 1000)
    told = ngettext(
        "Too many failed attempts. Try again in %d second.", "Too many failed attempts. Try again in %d seconds.", seconds
    )
    return seconds, told % seconds


def _render_invalid_link(request: HttpRequest) -> HttpResponse:
    return render(request, "sign_in/invalid_link.html", {"admin_exists": first_admin.admin_exists()}, status=404)
