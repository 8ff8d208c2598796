"""Queue a message from one session to another, once per tool call and without deadlocks.

A call that waits for the answer records this with the message, so any process can read which sessions wait for which.
"""

from uuid import UUID

from django.db import transaction

from clawsite.accounts.models import User
from clawsite.infra import sql
from sessions_app.keys import parse_key
from sessions_app.models import Lane, Run, RunWait, Session
from sessions_app.origin import Origin
from sessions_app.run_request import ORDINARY_REQUEST, NestedMessage, RunRequest
from sessions_app.runs import waiting
from sessions_app.runs.lanes import NESTED
from sessions_app.runs.lifecycle import AcceptedRun, accept_run
from sessions_app.runs.waiting import Wait
from tools_app.core.definition import ToolEnv, ToolFailed

MAX_DEPTH = 5  # chain of messages between sessions: A to B, B to A, and so on
# In the text itself: later runs of that session read it too and must not mistake it for a person's message.
MESSAGE_HEADING = "[Message from agent {agent} in session {key}, sent by its sessions_send tool and not by a person]\n\n{message}"


@transaction.atomic
def send_nested_message(
    env: ToolEnv, call_id: str, sender: User, target: Session, message: str, *, wait_seconds: float = 0, trace: str = ""
) -> AcceptedRun:
    """Queue the message. Repeating a call returns the first run. Needs its own transaction, because it locks the lane first."""
    # Two sessions that message each other at the same time must not both pass the check. Lock order: lane, session, run.
    Lane.objects.select_for_update().get(name=NESTED)
    sending = read_run_request(env.run_pk)
    depth = 1 + (sending.kind.depth if isinstance(sending.kind, NestedMessage) else 0)
    if depth > MAX_DEPTH:
        raise ToolFailed(
            f"sessions have messaged each other {MAX_DEPTH} times in a row: stop here and tell the person how far you got"
        )
    if wait_seconds and is_waiting_for(target.pk, UUID(env.session_id)):
        raise ToolFailed(
            "that session is waiting for this one's answer, so waiting for it would never end: just give your answer, "
            "or send with timeout_seconds 0"
        )
    here = Session.objects.get(pk=env.session_id)
    origin = Origin(
        webhook=sending.origin.webhook or parse_key(here.key).hook,
        through=(*sending.origin.through, (env.agent, env.session_id)),
    )
    accepted = accept_run(
        user=sender,
        session=target,
        run_id=nested_run_id(env, call_id),
        prompt=MESSAGE_HEADING.format(agent=env.agent, key=here.key_for(target.owner_id), message=message),
        # Limits of a token or webhook also apply to all runs that its run starts.
        request=RunRequest(
            NestedMessage(env.run_pk, call_id, bool(wait_seconds), depth),
            origin,
            token_limits=sending.token_limits,
            traceparent=trace,
        ),
        lane=NESTED,
    )
    if wait_seconds and env.run_pk:
        wait = Wait(RunWait.Kind.CHILD, str(accepted.pk), sql.db_now() + wait_seconds)
        waiting.add_waits(env.run_pk, [wait])
    return accepted


def nested_run_id(env: ToolEnv, call_id: str) -> str:
    return f"send:{env.run_pk or env.session_id}:{call_id}"


def read_run_request(run_pk: int | None) -> RunRequest:
    """Return the request of the run that a tool belongs to; an ordinary one outside of runs."""
    return next(iter(Run.objects.filter(pk=run_pk or 0).requests().values()), ORDINARY_REQUEST)


def is_waiting_for(session_id: UUID, other: UUID) -> bool:
    """Whether a session waits for another one, directly or through others."""
    targets = _find_waiting_sessions()
    seen: set[UUID] = set()
    ahead = [session_id]
    while ahead:
        here = ahead.pop()
        if here == other:
            return True
        if here not in seen:
            seen.add(here)
            ahead += targets.get(here, [])
    return False


def _find_waiting_sessions() -> dict[UUID, list[UUID]]:
    """Map each session to the sessions with runs that its run waits for."""
    waits = RunWait.objects.filter(kind=RunWait.Kind.CHILD).values_list("run__session_id", "reference")
    targets = dict(Run.objects.filter(pk__in=[int(run) for _, run in waits]).values_list("pk", "session_id"))
    found: dict[UUID, list[UUID]] = {}
    for session_id, run in waits:
        if target := targets.get(int(run)):
            found.setdefault(session_id, []).append(target)
    return found
