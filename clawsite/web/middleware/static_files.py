"""Static files: under names that carry their hash, so that browsers may keep them for ever, and sent by this process."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedAssets(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """Also rewrites the imports of our ES modules: a cached module must never load another version's neighbour."""

    support_js_module_import_aggregation = True
    # Each settles one step of a chain of imports. From chat/page.js to shared/texts.js there are six; Django gives up after five.
    max_post_process_passes = 12


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise, answering with the bytes and not with an open file, which an ASGI server could only read with a warning."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        content = b""
        if found.file:
            with found.file:
                content = found.file.read()
        response = HttpResponse(content, status=int(found.status), headers=dict(found.headers))
        if "Content-Type" not in dict(found.headers):
            del response["Content-Type"]  # Django's guess, for an answer without content
        return response
