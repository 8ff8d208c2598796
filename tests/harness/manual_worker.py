"""A worker that a test drives step by step: claim a run, stream text, finish, fail."""

import datetime as dt
from typing import Any

from clawsite.infra import clock, db
from clawsite.infra.reasons import Reason
from sessions_app import worker_tasks
from sessions_app.events import epoch
from sessions_app.events.journal import NewEntry, NewEvent
from sessions_app.models import Event, Run
from sessions_app.runs import freezes, queue
from sessions_app.runs.compaction_requests import COMPACTED, NOTHING_TO_COMPACT
from sessions_app.runs.lifecycle import build_end_event
from sessions_app.runs.types import ClaimedRun


class ManualWorker:
    """Its methods are also the steps of the protocol scripts: `{"do": ["start", "run-1"]}`."""

    def __init__(self) -> None:
        self.held: dict[str, ClaimedRun] = {}
        self.texts: dict[str, str] = {}

    async def start(self, run_id: str) -> None:
        claimed = (await db.write(queue.claim_runs, "w1", 64, alone=True)).runs
        self.held |= {one.run_id: one for one in claimed}
        assert run_id in self.held, f"{run_id} can't be claimed"
        self.texts[run_id] = ""

    async def stream(self, run_id: str, *deltas: str) -> None:
        new = []
        for delta in deltas:
            data = {"messageId": f"m-{run_id}", "attempt": 1, "delta": delta, "offset": len(self.texts[run_id])}
            new.append(NewEvent("assistant", data))
            self.texts[run_id] += delta
        await db.write(queue.append_events, [(self.held[run_id], new)], key=str(self.held[run_id].session_id))

    async def use_tool(self, run_id: str, name: str, **result: Any) -> None:
        call = {"name": name, "toolCallId": f"t-{run_id}"}
        failed = bool(result.get("isError"))
        new = [
            NewEvent("tool", {"phase": "start", **call, "args": {}}),
            NewEvent("tool", {"phase": "result", **call, "isError": failed, "result": {"content": [], "details": {}}}),
        ]
        await db.write(queue.append_events, [(self.held[run_id], new)], key=str(self.held[run_id].session_id))

    async def finish(self, run_id: str) -> None:
        """Store the answer and end the run."""
        claimed, text = self.held.pop(run_id), self.texts[run_id]
        content = [{"type": "text", "text": text}]
        message = {"role": "assistant", "content": content, "timestamp": 1, "messageId": f"m-{run_id}"}
        final = NewEvent("assistant", {"messageId": f"m-{run_id}", "attempt": 1, "final": True, "message": message})
        entry = NewEntry("message", "assistant", content, text, f"m-{run_id}", {"stopReason": "stop"})
        last = build_end_event(Run.Status.COMPLETED, "stop", startedAt=claimed.started_ms)
        step = {"events": [final, last], "entries": [entry], "model": "openai/fake-1", "input_tokens": 3, "output_tokens": 5}
        await db.write(queue.write_step, claimed, to=Run.Status.COMPLETED, reason="stop", **step, key=str(claimed.session_id))

    async def compact(self, run_id: str, text: str, through: str) -> None:
        """End a compaction run that summarized the session through that message."""
        claimed = self.held.pop(run_id)
        meta = {"summarisedThrough": through, "kept": 2}
        entry = NewEntry("compaction", "", [{"type": "text", "text": text}], text, f"s-{run_id}", meta)
        start = NewEvent("compaction", {"phase": "start", "reason": "manual"})
        data = {"phase": "end", "willRetry": False, "completed": True, "reason": "manual", "messageId": f"s-{run_id}", "text": text}
        last = build_end_event(Run.Status.COMPLETED, COMPACTED, startedAt=claimed.started_ms)
        await db.write(queue.write_step, claimed, events=[start], key=str(claimed.session_id))
        step = {"events": [NewEvent("compaction", data), last], "entries": [entry]}
        await db.write(queue.write_step, claimed, to=Run.Status.COMPLETED, reason=COMPACTED, **step, key=str(claimed.session_id))

    async def skip_compaction(self, run_id: str) -> None:
        claimed = self.held.pop(run_id)
        end = NewEvent("compaction", {"phase": "end", "willRetry": False, "completed": False, "reason": NOTHING_TO_COMPACT})
        last = build_end_event(Run.Status.COMPLETED, NOTHING_TO_COMPACT, startedAt=claimed.started_ms)
        await db.write(
            queue.write_step,
            claimed,
            to=Run.Status.COMPLETED,
            reason=NOTHING_TO_COMPACT,
            events=[end, last],
            key=str(claimed.session_id),
        )

    async def fail(self, run_id: str, error: str, kind: str = "unavailable") -> None:
        claimed = self.held.pop(run_id)
        await db.write(queue.end_run, claimed, Run.Status.FAILED, kind, Reason.of(error), key=str(claimed.session_id))

    async def abort(self, run_id: str, reason: str = "rpc") -> None:
        claimed = self.held.pop(run_id)
        await db.write(queue.end_run, claimed, Run.Status.ABORTED, reason, key=str(claimed.session_id))

    async def freeze(self, run_id: str) -> None:
        """Freeze the run, as `claw panic --run` does on the host."""
        pk = await db.read(Run.objects.values_list("pk", flat=True).get, run_id=run_id)
        await db.write(freezes.freeze, "run", str(pk), reason="it deletes files", by=None, by_name="host", alone=True)

    async def restore_database(self) -> None:
        """Mark the database as restored from a backup."""
        await db.write(epoch.start_new_epoch)

    async def age_runs(self, *run_ids: str) -> None:
        """Backdate the end of these runs by 40 days and delete old events."""
        moment = clock.now() - dt.timedelta(days=40)
        await db.write(Run.objects.filter(run_id__in=run_ids).update, ended_at=moment)
        await db.write(Event.objects.filter(run__run_id__in=run_ids).update, ts=clock.to_ms(moment))
        await worker_tasks.delete_old_events()

    async def complete(self, run_id: str, *deltas: str) -> None:
        await self.start(run_id)
        await self.stream(run_id, *deltas)
        await self.finish(run_id)
