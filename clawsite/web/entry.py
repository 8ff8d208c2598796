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
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from clawsite.accounts import announce, first_admin, throttle
from clawsite.accounts.models import User
from clawsite.infra.errors import ClawError, Unavailable

FIRST_ADMIN_KEY = "first_admin_digest"
BACKEND = "django.contrib.auth.backends.ModelBackend"


class SignInForm(AuthenticationForm):
    error_messages = {
        **AuthenticationForm.error_messages,
        "invalid_login": _("Name and password do not match. Mind upper and lower case in both."),
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
        self.fields["password1"].help_text = _("At least 8 characters, and nothing easily guessed.")


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    wanted = _inside(request, request.POST.get("next") or request.GET.get("next"))
    if request.method != "POST":
        if request.user.is_authenticated:
            return redirect(wanted)
        return _sign_in_page(request, SignInForm(request), wanted)
    address, name = client_address(request), request.POST.get("username", "")
    try:
        throttle.admit(address, name)
    except Unavailable as wait:
        return _wait_page(request, wait, wanted)
    form = SignInForm(request, data=request.POST)
    if not form.is_valid():
        return _sign_in_page(request, form, wanted, status=400)
    throttle.succeeded(address, name, admitted=True)
    login(request, form.get_user())
    return redirect(wanted)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    user_pk = request.user.pk
    logout(request)
    if user_pk is not None:
        announce.account_changed(user_pk)  # open sockets of this browser close
    return redirect(settings.LOGOUT_REDIRECT_URL)


@require_safe
def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """In place of the admin's own form, which knows no waiting times."""
    wanted = _inside(request, request.GET.get("next"), default=reverse("admin:index"))
    if not request.user.is_authenticated:
        return redirect(f"{settings.LOGIN_URL}?{urlencode({'next': wanted})}")
    if not request.user.is_staff:
        raise PermissionDenied  # sending them to sign-in again would send them round in circles
    return redirect(wanted)


@never_cache
@require_safe
def first_admin_link(request: HttpRequest, token: str) -> HttpResponse:
    """Exchange the link for a session at once, so that the token stands in no later address, referrer or log line."""
    digest = first_admin.digest_of(token)
    if not first_admin.link_is_open(digest):
        return _no_link(request)
    request.session[FIRST_ADMIN_KEY] = digest
    return redirect("first-admin")


@sensitive_post_parameters("password1", "password2")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def first_admin_page(request: HttpRequest) -> HttpResponse:
    digest = request.session.get(FIRST_ADMIN_KEY, "")
    if not first_admin.link_is_open(digest):
        return _no_link(request)
    form = FirstAdminForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            user = first_admin.use_link(digest, form.cleaned_data["username"], form.cleaned_data["password1"])
        except ClawError as error:
            form.add_error(None, error.message)
        else:
            login(request, user, backend=BACKEND)
            return redirect("chat")
    return render(request, "entry/first_admin.html", {"form": form}, status=400 if form.errors else 200)


def client_address(request: HttpRequest) -> str:
    return throttle.client_address(request.META.get("REMOTE_ADDR", ""), request.META.get("HTTP_X_FORWARDED_FOR", ""))


def _inside(request: HttpRequest, address: str | None, default: str = settings.LOGIN_REDIRECT_URL) -> str:
    """Where to go next, if it is a page of ours; a link to sign-in must not be able to end elsewhere."""
    if address and url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure()):
        return address
    return default


def _sign_in_page(request: HttpRequest, form: forms.Form, wanted: str, status: int = 200, **context: Any) -> HttpResponse:
    return render(request, "entry/sign_in.html", {"form": form, "next": wanted, **context}, status=status)


def _wait_page(request: HttpRequest, wait: Unavailable, wanted: str) -> HttpResponse:
    seconds = math.ceil((wait.retry_after_ms or 0) / 1000)
    told = ngettext(
        "Too many failed attempts. Try again in %d second.", "Too many failed attempts. Try again in %d seconds.", seconds
    )
    form = SignInForm(request, initial={"username": request.POST.get("username", "")})
    response = _sign_in_page(request, form, wanted, status=429, wait=told % seconds)
    response["Retry-After"] = str(seconds)
    return response


def _no_link(request: HttpRequest) -> HttpResponse:
    return render(request, "entry/no_link.html", {"admin_exists": first_admin.admin_exists()}, status=404)
