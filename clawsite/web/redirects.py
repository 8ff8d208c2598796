"""Safe redirects."""

from django.conf import settings
from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme


def safe_redirect_url(request: HttpRequest, address: str | None, default: str = settings.LOGIN_REDIRECT_URL) -> str:
    """Return the address if it is on this site, else the default. Sign-in links must not redirect to other sites."""
    if address and url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure()):
        return address
    return default
