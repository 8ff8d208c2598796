"""The WebSocket protocol as JSON Schema, for client authors."""

from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from clawsite.gateway.server.schema import protocol_schema


@require_safe
def protocol_json(request: HttpRequest) -> JsonResponse:
    """Public, because it describes the software, not this server."""
    return JsonResponse(protocol_schema(), headers={"Cache-Control": "public, max-age=300"})
