"""Queue a message from one session to another, once per tool call and without deadlocks.

Any process can read from the database what waits for what: a nested run's request says which call of which run sent it and
whether that call waits, and the call's row says whether it still does. A caller that died or gave up no longer waits.
"""

from uuid import UUID

from django.db import transaction

from clawsite.accounts.models import User
from sessions_app.keys import parse_key
from sessions_app.models import Lane, Run, Session, ToolCall
from sessions_app.origin import Origin
from sessions_app.run_request import ORDINARY_REQUEST, NestedMessage, RunRequest
from sessions_app.runs.lanes import NESTED
from sessions_app.runs.lifecycle import AcceptedRun, accept_run
from tools_app.core.definition import ToolEnv, ToolFailed

MAX_DEPTH = 5  # chain of messages between sessions: A to B, B to A, and so on
# In the text itself: later runs of that session read it too and must not mistake it for a person's message.
MESSAGE_HEADING = "[Message from agent {agent} in session {key}, sent by its sessions_send tool and not by a person]\n\n{message}"


@transaction.atomic
def send_nested_message(
    env: ToolEnv, call_id: str, sender: User, target: Session, message: str, *, waits: bool, trace: str = ""
) -> AcceptedRun:
    """Queue the message. Repeating a call returns the first run. Needs its own transaction, because it locks the lane first."""
    # Two sessions that message each other at the same time must not both pass the check. Lock order: lane, session, run.
    lane = Lane.objects.select_for_update().get(name=NESTED)
    sending = read_run_request(env.run_pk)
    depth = 1 + (sending.kind.depth if isinstance(sending.kind, NestedMessage) else 0)
    if depth > MAX_DEPTH:
        raise ToolFailed(
            f"sessions have messaged each other {MAX_DEPTH} times in a row: stop here and tell the person how far you got"
        )
    if waits and is_waiting_for(target.pk, UUID(env.session_id)):
        raise ToolFailed(
            "that session is waiting for this one's answer, so waiting for it would never end: just give your answer, "
            "or send with timeout_seconds 0"
        )
    if waits and _count_slots_held_by_waiting(env.run_pk) >= lane.max_running:
        raise ToolFailed(
            f"all slots for messages between sessions ({lane.max_running}) are taken by sessions that are waiting themselves, "
            "so the answer might never come: send with timeout_seconds 0, or do the work here"
        )
    here = Session.objects.get(pk=env.session_id)
    origin = Origin(
        webhook=sending.origin.webhook or parse_key(here.key).hook,
        through=(*sending.origin.through, (env.agent, env.session_id)),
    )
    return accept_run(
        user=sender,
        session=target,
        run_id=f"send:{env.run_pk or env.session_id}:{call_id}",
        prompt=MESSAGE_HEADING.format(agent=env.agent, key=here.key_for(target.owner_id), message=message),
        # Limits of a token or webhook also apply to all runs that its run starts.
        request=RunRequest(
            NestedMessage(env.run_pk, call_id, waits, depth), origin, token_limits=sending.token_limits, traceparent=trace
        ),
        lane=NESTED,
    )


def read_run_request(run_pk: int | None) -> RunRequest:
    """Return the request of the run that a tool belongs to; an ordinary one outside of runs."""
    return next(iter(Run.objects.filter(pk=run_pk or 0).requests().values()), ORDINARY_REQUEST)


def _count_slots_held_by_waiting(run_pk: int | None) -> int:
    """Count lane slots held by runs that wait for other sessions, including this run if it holds one."""
    waiting = _find_waiting_sessions()
    holders = Run.objects.filter(lane=NESTED, status=Run.Status.RUNNING).values_list("pk", "session_id")
    return sum(pk == run_pk or session_id in waiting for pk, session_id in holders)


def is_waiting_for(session_id: UUID, other: UUID) -> bool:
    """Whether a session waits for another one, directly or through others."""
    waiting = _find_waiting_sessions()
    seen: set[UUID] = set()
    ahead = [session_id]
    while ahead:
        here = ahead.pop()
        if here == other:
            return True
        if here not in seen:
            seen.add(here)
            ahead += waiting.get(here, [])
    return False


def _find_waiting_sessions() -> dict[UUID, list[UUID]]:
    """Map each session to the sessions that its running calls wait for."""
    unfinished = Run.objects.filter(lane=NESTED, status__in=Run.UNFINISHED).only("session_id", "options")
    sent = [(run.session_id, kind) for run in unfinished if isinstance(kind := run.request.kind, NestedMessage) and kind.waits]
    calls = ToolCall.objects.filter(run__in={by.run for _, by in sent}, status=ToolCall.Status.STARTED)
    callers: dict[tuple[int | None, str], UUID] = {
        (run_pk, call_id): session_id for run_pk, call_id, session_id in calls.values_list("run_id", "call_id", "session_id")
    }
    waiting: dict[UUID, list[UUID]] = {}
    for session_id, by in sent:
        if caller := callers.get((by.run, by.call)):
            waiting.setdefault(caller, []).append(session_id)
    return waiting
