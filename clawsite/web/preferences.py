"""A user's language and theme: stored with the account, and in cookies for the pages before sign-in.

The server renders both into the page, so nothing flashes on load. The languages are in settings.LANGUAGES, the colors in
static/css/tokens.css.
"""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from clawsite.accounts.models import User
from clawsite.web.redirects import safe_redirect_url

THEME_COOKIE = "clawsite_theme"
COOKIE_MAX_AGE = 365 * 24 * 3600
# --paper in the light and dark theme, for the browser UI around the page.
THEME_COLORS = {"light": "#f9f6f0", "dark": "#191714"}


def preferences(request: HttpRequest) -> dict[str, Any]:
    """Context processor: the theme set on <html> and the available languages."""
    return {
        "theme": theme_of(request),
        "language_wanted": chosen_language(request),
        "languages": settings.LANGUAGES,
        "paper": THEME_COLORS,
    }


def theme_of(request: HttpRequest) -> str:
    user = _signed_in_user(request)
    return user.theme if user else read_theme_cookie(request)


def read_theme_cookie(request: HttpRequest) -> str:
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return theme if theme in User.Theme.values else User.Theme.SYSTEM.value


def chosen_language(request: HttpRequest) -> str:
    """Return the language the user chose, or an empty string for the browser default."""
    user = _signed_in_user(request)
    language = (user.language if user else "") or request.COOKIES.get(settings.LANGUAGE_COOKIE_NAME, "")
    return language if _is_language(language) else ""


@require_POST
def change_preferences(request: HttpRequest) -> HttpResponse:
    """Save the submitted preferences and keep the others. Scripts get an empty response instead of a redirect."""
    changes = {name: request.POST[name] for name in ("theme", "language") if name in request.POST}
    if not _are_valid(changes):
        return HttpResponse(status=400)
    if request.user.is_authenticated and changes:
        User.objects.filter(pk=request.user.pk).update(**changes)  # permissions don't change, so open sockets need not be notified
    from_script = "application/json" in request.headers.get("Accept", "")
    response = HttpResponse(status=204) if from_script else redirect(safe_redirect_url(request, request.POST.get("next")))
    set_preference_cookies(response, **changes)
    return response


def set_preference_cookies(response: HttpResponseBase, *, theme: str | None = None, language: str | None = None) -> None:
    """Store preferences in cookies, so that pages look the same after sign-out."""
    if theme is not None:
        _set_cookie(response, THEME_COOKIE, theme if theme != User.Theme.SYSTEM else "")
    if language is not None:
        _set_cookie(response, settings.LANGUAGE_COOKIE_NAME, language)


def _signed_in_user(request: HttpRequest) -> User | None:
    user = getattr(request, "user", None)  # requests rejected early have none
    return user if user is not None and user.is_authenticated else None


def _set_cookie(response: HttpResponseBase, name: str, value: str) -> None:
    if not value:
        response.delete_cookie(name, samesite="Lax")
        return
    response.set_cookie(name, value, max_age=COOKIE_MAX_AGE, httponly=True, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE)


def _are_valid(changes: dict[str, str]) -> bool:
    theme, language = changes.get("theme", User.Theme.SYSTEM), changes.get("language", "")
    return theme in User.Theme.values and (not language or _is_language(language))


def _is_language(code: str) -> bool:
    return code in dict(settings.LANGUAGES)
