"""Activate the signed-in user's language and record their browser as seen, before any page is rendered."""

from django.conf import settings
from django.http import HttpRequest
from django.utils import translation
from django.utils.deprecation import MiddlewareMixin

from clawsite.accounts.sign_in import browsers
from clawsite.web.preferences import chosen_language


class SignedInMiddleware(MiddlewareMixin):
    """Must come after Django's authentication. Does nothing without a session cookie, so probes cost no query."""

    def process_request(self, request: HttpRequest) -> None:
        if settings.SESSION_COOKIE_NAME not in request.COOKIES:
            return
        user = request.user
        if not user.is_authenticated:
            return
        browsers.record_browser(request, user)
        if language := chosen_language(request):
            translation.activate(language)
            request.LANGUAGE_CODE = translation.get_language()
