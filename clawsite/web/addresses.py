"""Where a request comes from, and where it may be sent on to."""

from django.conf import settings
from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme

from clawsite.accounts import throttle


def client_address(request: HttpRequest) -> str:
    return throttle.client_address(request.META.get("REMOTE_ADDR", ""), request.META.get("HTTP_X_FORWARDED_FOR", ""))


def inside(request: HttpRequest, address: str | None, default: str = settings.LOGIN_REDIRECT_URL) -> str:
    """Where to go next, if it is a page of ours; a link to sign-in must not be able to end elsewhere."""
    if address and url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure()):
        return address
    return default
