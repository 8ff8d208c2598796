"""Whether this process lives, and whether the installation can work. For supervisors and load balancers, without signing in."""

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
    """This process answers. It touches nothing, so that a slow database does not get a living process killed."""
    return _json_response({"ok": True, "status": "live"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """A message sent now would be answered; otherwise what is missing, in words that give nothing away."""
    with translation.override(None):  # for programs: always in the same words
        lacks = list_problems()
    if lacks:
        return _json_response({"ok": False, "status": "not ready", "missing": lacks}, status=503)
    return _json_response({"ok": True, "status": "ready"})


def _json_response(body: dict[str, Any], status: int = 200) -> JsonResponse:
    return JsonResponse(body, status=status, headers={"Cache-Control": "no-store"})


def list_problems() -> list[str]:
    """What keeps a message sent now from being answered, in the language of the page; nothing when all is well."""
    try:
        if not _is_migrated():
            return [_("The database is not migrated. Run `claw prepare`.")]
        return [] if workers.list_live().exists() else [_("No active worker. Start `claw worker`.")]
    except DatabaseError:
        return [_("The database can’t be reached.")]


def _is_migrated() -> bool:
    """Asked of the database until it is so: what is applied stays applied, and the question takes some 20 ms."""
    global _seen_migrated
    if not _seen_migrated:
        executor = MigrationExecutor(connection)
        _seen_migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
    return _seen_migrated
