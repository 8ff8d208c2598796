"""Liveness and readiness probes for supervisors and load balancers. They need no sign-in."""

from typing import Any

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from sessions_app.runs import workers

_seen_migrated = False


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Report that this process responds. It doesn't use the database, so a slow database doesn't get a healthy process killed."""
    return _json_response({"ok": True, "status": "live"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Report whether a message sent now would be answered. The problems listed reveal nothing sensitive."""
    with translation.override(None):  # programs get the same text in every language
        problems = list_problems()
    if problems:
        return _json_response({"ok": False, "status": "not ready", "missing": problems}, status=503)
    return _json_response({"ok": True, "status": "ready"})


def _json_response(body: dict[str, Any], status: int = 200) -> JsonResponse:
    return JsonResponse(body, status=status, headers={"Cache-Control": "no-store"})


def list_problems() -> list[str]:
    """List what prevents messages from being answered, in the active language. Empty when all is well."""
    try:
        if not _is_migrated():
            return [_("The database is not migrated. Run `claw prepare`.")]
        return [] if workers.list_live().exists() else [_("No active worker. Start `claw worker`.")]
    except DatabaseError:
        return [_("The database can’t be reached.")]


def _is_migrated() -> bool:
    """Check until it is true, then cache the result: migrations stay applied, and the check takes about 20 ms."""
    global _seen_migrated
    if not _seen_migrated:
        executor = MigrationExecutor(connection)
        _seen_migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
    return _seen_migrated
