"""Read the rows of a round from the database."""

from collections.abc import Collection

from django.conf import settings

from sessions_app.models import Event, Lane, Run, ToolCall, TranscriptEntry
from tests.faults.history import CallRow, EntryRow, EventRow, Rows, RunRow


def read_rows(session_keys: Collection[str]) -> Rows:
    """Session keys are unique within a round."""
    here = {"session__key__in": session_keys}
    return Rows(
        runs=[
            RunRow(
                pk=run.pk,
                run_id=run.run_id,
                owner=run.owner_id,
                session=run.session.key,
                status=run.status,
                reason=run.reason,
                error=run.error,
                prompt=run.prompt,
                lane=run.lane,
                lease=run.lease_token,
                rescues=run.rescues,
                seq=run.seq,
                steps=run.steps,
                ready=run.ready_at is not None,
                waits=tuple(map(str, run.waits.order_by("pk"))),
            )
            for run in Run.objects.filter(**here).select_related("session").order_by("pk")
        ],
        events=[
            EventRow(*row)
            for row in Event.objects.filter(**here).values_list("session__key", "cursor", "run_id", "seq", "stream", "ts", "data")
        ],
        calls=[
            CallRow(
                run=call.run_id,
                call_id=call.call_id,
                position=call.position,
                name=call.name,
                arguments=call.arguments,
                status=call.status,
                lease=call.lease_token,
                text="\n".join(block.get("text", "") for block in (call.result or {}).get("content", [])),
            )
            for call in ToolCall.objects.filter(**here)
        ],
        entries=[
            EntryRow(*row)
            for row in TranscriptEntry.objects.filter(**here).values_list(
                "session__key", "position", "run_id", "step", "role", "text", "message_id"
            )
        ],
        lanes=dict(Lane.objects.values_list("name", "max_running")),
        most_rescues=settings.MAX_RESCUES,
    )


def unfinished(session_keys: Collection[str]) -> list[str]:
    found = Run.objects.filter(session__key__in=session_keys, status__in=Run.UNFINISHED)
    return [f"{run.run_id} is {run.status} ({run.reason}), lease {run.lease_token} of {run.worker or 'nobody'}" for run in found]


def heads(session_keys: Collection[str]) -> dict[str, int]:
    from sessions_app.models import Session

    return dict(Session.objects.filter(key__in=session_keys).values_list("key", "cursor"))
