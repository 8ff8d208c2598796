"""Static files, served by this process under hashed names, so that browsers can cache them forever."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedAssets(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """Also rewrites imports in our ES modules, so that a cached module never imports one from another version."""

    support_js_module_import_aggregation = True
    # Each pass resolves one level of imports. From chat/page.js to shared/texts.js there are six levels; Django's default is five.
    max_post_process_passes = 12


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise, but responding with bytes: streaming an open file from ASGI causes a warning."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        served = static_file.get_response(request.method, request.META)
        content = b""
        if served.file:
            with served.file:
                content = served.file.read()
        response = HttpResponse(content, status=int(served.status), headers=dict(served.headers))
        if "Content-Type" not in dict(served.headers):
            del response["Content-Type"]  # Django's default, wrong for a response without content
        return response
