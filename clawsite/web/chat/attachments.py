"""Attachments over HTTP: uploaded by the chat page before the message is sent, and shown or downloaded after.

What is sent back was written by strangers: only four kinds of image are shown, everything else is downloaded, and neither may run
anything or be guessed to be something else.
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

MAX_FORM_BYTES = 64 << 10  # of the form around the file
CONTENT_SECURITY_POLICY = "sandbox; default-src 'none'"
CACHE_SECONDS = 3600  # by the browser: the bytes never change, but who may see them does

View = Callable[..., HttpResponseBase]


def _json_errors(view: View) -> View:
    """For a script on the page: what went wrong, in words, as JSON."""

    @wraps(view)
    def answer(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return _error("UNAUTHORIZED", _("You are signed out. Sign in and try again."), 401)
        try:
            return view(request, *args, **kwargs)
        except ClawError as error:
            return _error(error.code, error.message, error.http_status)

    return answer


def _error(code: str, message: str, status: int) -> JsonResponse:
    return JsonResponse({"error": {"code": code, "message": message}}, status=status)


@csrf_exempt  # checked by `_upload`, once it is clear that the form is worth reading: the check itself reads all of it
@never_cache
@require_POST
async def upload(request: HttpRequest) -> HttpResponseBase:
    """Keep a file (multipart field `file`) until a message brings it; after a day without one it is deleted.

    Nothing of it is read before it is known who sends it.
    """
    if (await request.auser()).is_authenticated:
        try:
            await read_body(request, attachments.MAX_FILE_BYTES + MAX_FORM_BYTES)
        except BodyTooLarge as error:
            words = _("The file exceeds the %s limit.") % format_size(attachments.MAX_FILE_BYTES)
            return _error(error.code, words, error.http_status)
        except ClawError as error:
            return _error(error.code, error.message, error.http_status)
    return await sync_to_async(_upload)(request)


@_json_errors
@csrf_protect
def _upload(request: HttpRequest) -> HttpResponse:
    user = cast(User, request.user)
    if "operator.write" not in scopes_of(user):
        raise Forbidden(_("You don’t have permission to send messages."))
    given = request.FILES.get("file")
    if given is None:
        raise InvalidRequest(_("The form field “file” has no file."))
    attachments.check_quota(user)
    stored = attachments.store_file(given.chunks(), given.name or "", given.content_type or "")
    kept = attachments.register(user, stored)
    return JsonResponse({"id": str(kept.pk), "name": kept.name, "mimeType": kept.mime_type, "size": kept.size}, status=201)


@require_safe
@_json_errors
def download(request: HttpRequest, attachment_id: UUID) -> HttpResponse:
    """Images to look at, everything else to keep; for its uploader, and for those who may see its session."""
    found = attachments.find(cast(User, request.user), attachment_id)
    response = HttpResponse(content_type=found.mime_type if found.is_image else "application/octet-stream")
    response["Content-Disposition"] = content_disposition_header(not found.is_image, found.name) or "attachment"
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = f"private, max-age={CACHE_SECONDS}"
    try:
        response.content = attachments.path_of(found.sha256).read_bytes()
    except OSError:
        return _error("NOT_FOUND", _("The file no longer exists."), 404)
    return response
