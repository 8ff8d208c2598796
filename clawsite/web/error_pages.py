"""Error pages.

The 500 page uses neither the database nor the session, because either may be the cause. The others render the account menu
and close the database connection this opens: Django renders them on threads outside of the request, where nothing else
would close it, and a dozen such threads would permanently exhaust PostgreSQL's pool (16).
"""

from contextlib import suppress

from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseServerError
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.views import defaults

from clawsite.web.preferences import THEME_COLORS, read_theme_cookie

PLAIN_PAGE = "<!doctype html><title>Clawsite</title><h1>{}</h1><p>{}</p>"


def server_error(request: HttpRequest) -> HttpResponse:
    page: str = PLAIN_PAGE.format(_("Something went wrong"), _("Server error. Details are in the log."))
    with suppress(Exception):  # such as uncollected static files; the original error is already logged
        page = render_to_string("500.html", {"theme": read_theme_cookie(request), "paper": THEME_COLORS})
    return HttpResponseServerError(page)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _release_connection(defaults.bad_request(request, exception))


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _release_connection(defaults.permission_denied(request, exception))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _release_connection(defaults.page_not_found(request, exception))


def _release_connection(page: HttpResponse) -> HttpResponse:
    if not connection.in_atomic_block:
        connection.close()
    return page
