"""The WebSocket protocol as JSON Schema, for whoever writes a client."""

from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from clawsite.gateway.server.schema import protocol_schema


@require_safe
def protocol_json(request: HttpRequest) -> JsonResponse:
    """Public: it describes the software, not the installation."""
    return JsonResponse(protocol_schema(), headers={"Cache-Control": "public, max-age=300"})
