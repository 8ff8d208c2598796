"""Attachments over HTTP: the chat page uploads them before sending a message, and shows or downloads them afterwards.

Their content is untrusted: only four image types are shown inline, everything else is downloaded, and headers prevent
scripts and content type sniffing.
"""

from collections.abc import Callable
from functools import wraps
from typing import cast
from uuid import UUID

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_POST, require_safe

from clawsite.accounts.groups import scopes_of
from clawsite.accounts.models import User
from clawsite.infra.errors import ClawError, Forbidden, InvalidRequest
from clawsite.infra.request_body import BodyTooLarge, read_body
from sessions_app.sessions import attachments
from sessions_app.sessions.file_types import format_size

MAX_FORM_BYTES = 64 << 10  # for the form around the file
CONTENT_SECURITY_POLICY = "sandbox; default-src 'none'"
CACHE_SECONDS = 3600  # in the browser; the content never changes, but access to it can

View = Callable[..., HttpResponseBase]


def _json_errors(view: View) -> View:
    """Return errors as JSON for the script on the page."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return _error("UNAUTHORIZED", _("You are signed out. Sign in and try again."), 401)
        try:
            return view(request, *args, **kwargs)
        except ClawError as error:
            return _error(error.code, error.message, error.http_status)

    return wrapped


def _error(code: str, message: str, status: int) -> JsonResponse:
    return JsonResponse({"error": {"code": code, "message": message}}, status=status)


@csrf_exempt  # `_upload` checks CSRF after authentication and size, because the check reads the whole form
@never_cache
@require_POST
async def upload(request: HttpRequest) -> HttpResponseBase:
    """Store a file (multipart field `file`) for a message. It is deleted if no message uses it within a day.

    The body is not read before the sender is authenticated.
    """
    if (await request.auser()).is_authenticated:
        try:
            await read_body(request, attachments.MAX_FILE_BYTES + MAX_FORM_BYTES)
        except BodyTooLarge as error:
            message = _("The file exceeds the %s limit.") % format_size(attachments.MAX_FILE_BYTES)
            return _error(error.code, message, error.http_status)
        except ClawError as error:
            return _error(error.code, error.message, error.http_status)
    return await sync_to_async(_upload)(request)


@_json_errors
@csrf_protect
def _upload(request: HttpRequest) -> HttpResponse:
    user = cast(User, request.user)
    if "operator.write" not in scopes_of(user):
        raise Forbidden(_("You don’t have permission to send messages."))
    file = request.FILES.get("file")
    if file is None:
        raise InvalidRequest(_("The form field “file” has no file."))
    attachments.check_quota(user)
    stored = attachments.store_file(file.chunks(), file.name or "", file.content_type or "")
    attachment = attachments.register(user, stored)
    return JsonResponse(
        {"id": str(attachment.pk), "name": attachment.name, "mimeType": attachment.mime_type, "size": attachment.size}, status=201
    )


@require_safe
@_json_errors
def download(request: HttpRequest, attachment_id: UUID) -> HttpResponse:
    """Send images inline and other files as downloads, to the uploader and to users who may see the session."""
    attachment = attachments.find(cast(User, request.user), attachment_id)
    response = HttpResponse(content_type=attachment.mime_type if attachment.is_image else "application/octet-stream")
    response["Content-Disposition"] = content_disposition_header(not attachment.is_image, attachment.name) or "attachment"
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = f"private, max-age={CACHE_SECONDS}"
    try:
        response.content = attachments.path_of(attachment.sha256).read_bytes()
    except OSError:
        return _error("NOT_FOUND", _("The file no longer exists."), 404)
    return response
