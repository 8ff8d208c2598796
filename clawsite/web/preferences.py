"""Language and colours as a person wants them: kept with the account, and in cookies for the pages before signing in.

The server writes both into the page it sends, so nothing flashes. Which words and colours there are is said elsewhere:
settings.LANGUAGES, static/css/tokens.css.
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
# --paper by day and by night, for what the browser paints around the page.
THEME_COLORS = {"light": "#f9f6f0", "dark": "#191714"}


def preferences(request: HttpRequest) -> dict[str, Any]:
    """For every template: the theme that <html> carries, and the languages one can choose from."""
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
    wanted = request.COOKIES.get(THEME_COOKIE, "")
    return wanted if wanted in User.Theme.values else User.Theme.SYSTEM.value


def chosen_language(request: HttpRequest) -> str:
    """The language somebody chose; empty when it is left to the browser."""
    user = _signed_in_user(request)
    wanted = (user.language if user else "") or request.COOKIES.get(settings.LANGUAGE_COOKIE_NAME, "")
    return wanted if _is_language(wanted) else ""


@require_POST
def change_preferences(request: HttpRequest) -> HttpResponse:
    """Take what the form names and leave the rest. A script asks for no page in return."""
    wanted = {name: request.POST[name] for name in ("theme", "language") if name in request.POST}
    if not _are_valid(wanted):
        return HttpResponse(status=400)
    if request.user.is_authenticated and wanted:
        User.objects.filter(pk=request.user.pk).update(**wanted)  # no rights change, so no socket needs to know
    from_script = "application/json" in request.headers.get("Accept", "")
    response = HttpResponse(status=204) if from_script else redirect(safe_redirect_url(request, request.POST.get("next")))
    set_preference_cookies(response, **wanted)
    return response


def set_preference_cookies(response: HttpResponseBase, *, theme: str | None = None, language: str | None = None) -> None:
    """Put choices into this browser's cookies: the page after signing out should look like the one before."""
    if theme is not None:
        _set_cookie(response, THEME_COOKIE, theme if theme != User.Theme.SYSTEM else "")
    if language is not None:
        _set_cookie(response, settings.LANGUAGE_COOKIE_NAME, language)


def _signed_in_user(request: HttpRequest) -> User | None:
    user = getattr(request, "user", None)  # a request that was refused early has none
    return user if user is not None and user.is_authenticated else None


def _set_cookie(response: HttpResponseBase, name: str, value: str) -> None:
    if not value:
        response.delete_cookie(name, samesite="Lax")
        return
    response.set_cookie(name, value, max_age=COOKIE_MAX_AGE, httponly=True, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE)


def _are_valid(wanted: dict[str, str]) -> bool:
    theme, language = wanted.get("theme", User.Theme.SYSTEM), wanted.get("language", "")
    return theme in User.Theme.values and (not language or _is_language(language))


def _is_language(code: str) -> bool:
    return code in dict(settings.LANGUAGES)
