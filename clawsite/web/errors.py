"""The page for a fault of ours. It asks neither database nor session, because one of them may be the fault."""

from contextlib import suppress

from django.http import HttpRequest, HttpResponse, HttpResponseServerError
from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from clawsite.web.preferences import PAPER, theme_in_cookie

PLAIN = "<!doctype html><title>Clawsite</title><h1>{}</h1><p>{}</p>"


def server_error(request: HttpRequest) -> HttpResponse:
    page: str = PLAIN.format(_("Something went wrong"), _("The fault is ours and is in the log."))
    with suppress(Exception):  # such as static files that were never collected; the first fault is in the log already
        page = render_to_string("500.html", {"theme": theme_in_cookie(request), "paper": PAPER})
    return HttpResponseServerError(page)
