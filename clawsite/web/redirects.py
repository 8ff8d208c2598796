"""Where a request may be sent on to."""

from django.conf import settings
from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme


def safe_redirect_url(request: HttpRequest, address: str | None, default: str = settings.LOGIN_REDIRECT_URL) -> str:
    """Where to go next, if it is a page of ours; a link to sign-in must not be able to end elsewhere."""
    if address and url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure()):
        return address
    return default
