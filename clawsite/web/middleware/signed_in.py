"""What follows from who is signed in, before any page is made: their language, and that their browser was seen."""

from django.conf import settings
from django.http import HttpRequest
from django.utils import translation
from django.utils.deprecation import MiddlewareMixin

from clawsite.accounts.sign_in import browsers
from clawsite.web.preferences import chosen_language


class SignedInMiddleware(MiddlewareMixin):
    """After Django's authentication. Without a session cookie it looks at nothing, so probes cost no query."""

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
