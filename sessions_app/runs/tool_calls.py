"""Tool calls as rows: decided, started, ended. Row, event and transcript entry are one transaction under the run's lease."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.audit.actor import Actor
from sessions_app.events.journal import NewEntry, NewEvent, new_message_id
from sessions_app.models import RunWait, ToolCall
from sessions_app.run_request import Invocation
from sessions_app.runs import hot_sql
from sessions_app.runs.announce import announce_run
from sessions_app.runs.hot_sql import LeaseLost, RunStep
from sessions_app.runs.types import ClaimedRun
from sessions_app.transcript.prompt_content import list_attachment_ids
from sessions_app.verdicts import ADMISSION_KEY, find_allowing_step

OUTCOME_UNKNOWN = (
    "interrupted: the worker died while this call was running, so its outcome is unknown. It was not repeated. "
    "Look at what it left before you decide whether to do it again."
)

ACTION_BY_STATUS = {ToolCall.Status.ALLOWED: "call.allowed", ToolCall.Status.REFUSED: "call.refused"}


@dataclass(frozen=True, slots=True)
class CallDecision:
    """A call with its policy result, stored so that a denial can be explained later."""

    call_id: str
    name: str
    arguments: dict[str, Any]
    status: ToolCall.Status  # allowed, refused or waiting
    refused_by: str = ""
    message: str = ""  # text for the model when denied
    query: dict[str, Any] = field(default_factory=dict)
    verdict: dict[str, Any] = field(default_factory=dict)
    policy_version: int = 0
    code: str = "tool_not_allowed"


def record_decisions(claimed: ClaimedRun, decisions: Sequence[CallDecision]) -> None:
    """Store the decisions of one turn. A call decided before (the run was parked or recovered) gets its new verdict."""
    positions = dict(ToolCall.objects.filter(run_id=claimed.pk).values_list("call_id", "position"))
    now = clock.now()
    fresh: list[ToolCall] = []
    for decision in decisions:
        fields = {
            "status": decision.status,
            "refused_by": decision.refused_by,
            "query": decision.query,
            "verdict": decision.verdict,
            "policy_version": decision.policy_version,
            "lease_token": claimed.lease,
        }
        if decision.call_id in positions:
            # Arguments too, because a plugin hook may have changed them.
            ToolCall.objects.filter(run_id=claimed.pk, call_id=decision.call_id).update(arguments=decision.arguments, **fields)
        else:
            fresh.append(
                ToolCall(
                    run_id=claimed.pk,
                    session_id=claimed.session_id,
                    call_id=decision.call_id,
                    position=len(positions) + len(fresh),
                    name=decision.name,
                    arguments=decision.arguments,
                    created_at=now,
                    **fields,
                )
            )
    ToolCall.objects.bulk_create(fresh)
    _audit_decisions(claimed, decisions)


def mark_started(claimed: ClaimedRun, call_id: str, name: str, arguments: dict[str, Any]) -> None:
    """Mark a call as started, committed before it starts: after a crash it is known to have been in flight."""
    _append(claimed, [NewEvent("tool", {"phase": "start", "name": name, "toolCallId": call_id, "args": arguments})])
    allowed = ToolCall.objects.filter(run_id=claimed.pk, call_id=call_id, status=ToolCall.Status.ALLOWED)
    if not allowed.update(status=ToolCall.Status.STARTED, started_at=clock.now(), lease_token=claimed.lease):
        raise LeaseLost(f"call {call_id} of run {claimed.pk} is not waiting to be started")


@dataclass(frozen=True, slots=True)
class OpenDeferral:
    """A call that ran and whose result comes later."""

    call_id: str
    name: str
    arguments: dict[str, Any]
    kind: str
    ref: str
    until: float | None  # database time
    overdue: bool


def record_deferral(claimed: ClaimedRun, call_id: str, kind: str, ref: str, seconds: float | None) -> None:
    """Store that the result of a running call comes later. From here on, any worker can resume the call and none repeats it."""
    _append(claimed, [])  # checks the fence
    started = ToolCall.objects.filter(run_id=claimed.pk, call_id=call_id, status=ToolCall.Status.STARTED)
    marker = {"kind": kind, "ref": ref, "until": None if seconds is None else sql.db_now() + seconds}
    if not started.update(status=ToolCall.Status.WAITING, deferred=marker, lease_token=claimed.lease):
        raise LeaseLost(f"call {call_id} of run {claimed.pk} is not running")


def list_deferred(run_pk: int) -> list[OpenDeferral]:
    """Return the run's calls whose result comes later, in the model's order."""
    deferred = ToolCall.objects.filter(run_id=run_pk, status=ToolCall.Status.WAITING, deferred__isnull=False)
    calls = list(deferred.order_by("position"))
    now = sql.db_now() if calls else 0.0
    return [_to_open_deferral(call, call.deferred or {}, now) for call in calls]


def _to_open_deferral(call: ToolCall, marker: dict[str, Any], now: float) -> OpenDeferral:
    until = marker["until"]
    overdue = until is not None and until <= now
    return OpenDeferral(call.call_id, call.name, call.arguments, marker["kind"], marker["ref"], until, overdue)


def record_admission(claimed: ClaimedRun, call_id: str, admission: dict[str, Any]) -> None:
    """Record who or what allowed a supervised call, in the transaction that starts it."""
    call = ToolCall.objects.filter(run_id=claimed.pk, call_id=call_id)
    for verdict in call.values_list("verdict", flat=True):
        call.update(verdict={**verdict, ADMISSION_KEY: admission})


def record_result(claimed: ClaimedRun, call_id: str, name: str, result: dict[str, Any], *, text: str, is_error: bool) -> None:
    """Store a result: {"content": [...], "details": {...}}."""
    status = ToolCall.Status.FAILED if is_error else ToolCall.Status.FINISHED
    call = ToolCall.objects.filter(run_id=claimed.pk, call_id=call_id)
    ended = [
        _build_result_event(
            call_id, name, result, is_error, _find_allowing_rule(call.values_list("verdict", flat=True).get(), name)
        )
    ]
    _append(claimed, ended, [_build_result_entry(call_id, name, result, text, is_error)])
    call.update(status=status, result=result, is_error=is_error, ended_at=clock.now())
    _audit_end(claimed, call_id, name, status)


def record_denial(claimed: ClaimedRun, decision: CallDecision) -> None:
    """Report to the model and the clients that a call was denied, and by which layer."""
    result = {
        "content": [{"type": "text", "text": decision.message}],
        "details": {"code": decision.code, "layer": decision.refused_by},
    }
    events = [
        NewEvent("tool", {"phase": "start", "name": decision.name, "toolCallId": decision.call_id, "args": decision.arguments}),
        _build_result_event(decision.call_id, decision.name, result, True, {"verdict": "refused", "layer": decision.refused_by}),
    ]
    _append(claimed, events, [_build_result_entry(decision.call_id, decision.name, result, decision.message, True)])
    ToolCall.objects.filter(run_id=claimed.pk, call_id=decision.call_id).update(result=result, is_error=True, ended_at=clock.now())


def record_waiting(claimed: ClaimedRun, decision: CallDecision, approval: dict[str, Any]) -> None:
    """Report that a call is waiting, with its approval request."""
    what = {"name": decision.name, "toolCallId": decision.call_id, "args": decision.arguments}
    _append(claimed, [NewEvent("tool", {"phase": "waiting", **what, "approval": approval})])


def close_waiting(run_pk: int, reason: str) -> tuple[list[NewEvent], list[NewEntry]]:
    """Close calls that wait for a decision or for their result when the run ends; return what the ending step must write."""
    events: list[NewEvent] = []
    entries: list[NewEntry] = []
    for call in ToolCall.objects.filter(run_id=run_pk, status=ToolCall.Status.WAITING).order_by("position"):
        lacks = "its result arrived" if call.deferred else "a decision on this call. It did not run"
        text = f"stopped: the run ended ({reason}) before {lacks}."
        result = {"content": [{"type": "text", "text": text}], "details": {"code": "stopped"}}
        fields = {"status": ToolCall.Status.FAILED, "result": result, "is_error": True, "ended_at": clock.now()}
        ToolCall.objects.filter(pk=call.pk).update(**fields)
        rule = _find_allowing_rule(call.verdict, call.name)
        events.append(_build_result_event(call.call_id, call.name, result, True, rule))
        entries.append(_build_result_entry(call.call_id, call.name, result, text, True))
    return events, entries


def interrupt_started(claimed: ClaimedRun) -> None:
    """After recovery: calls in flight have an unknown outcome and are never repeated by us."""
    _close_started(claimed, ToolCall.Status.INTERRUPTED, OUTCOME_UNKNOWN, "interrupted")


def close_started(claimed: ClaimedRun, reason: str) -> None:
    """Close calls in flight when the run ends: they were asked to stop."""
    _close_started(claimed, ToolCall.Status.FAILED, f"stopped: the run ended ({reason}) before this call did", "stopped")


def interrupt_frozen(claimed: ClaimedRun, words: str) -> None:
    """Close calls in flight when the run is frozen: they were interrupted and will not be restarted."""
    _close_started(claimed, ToolCall.Status.FAILED, f"{words}; what it did until then is not undone", "stopped")


def _close_started(claimed: ClaimedRun, status: ToolCall.Status, words: str, code: str) -> None:
    result = {"content": [{"type": "text", "text": words}], "details": {"code": code}}
    calls = list(ToolCall.objects.filter(run_id=claimed.pk, status=ToolCall.Status.STARTED).order_by("position"))
    for call in calls:
        events = [_build_result_event(call.call_id, call.name, result, True, _find_allowing_rule(call.verdict, call.name))]
        _append(claimed, events, [_build_result_entry(call.call_id, call.name, result, words, True)])
        ToolCall.objects.filter(pk=call.pk).update(status=status, result=result, is_error=True, ended_at=clock.now())
        _audit_end(claimed, call.call_id, call.name, status)
    if calls:
        _close_waits_of_calls(claimed.pk)


def _close_waits_of_calls(run_pk: int) -> None:
    """Delete waits that calls have recorded before they returned, except those of deferred calls."""
    deferred = [call.ref for call in list_deferred(run_pk)]
    RunWait.objects.filter(run_id=run_pk).exclude(kind=RunWait.Kind.FREEZE).exclude(reference__in=deferred).delete()


def _find_allowing_rule(verdict: dict[str, Any], name: str) -> dict[str, Any]:
    step, admission = find_allowing_step(verdict, name), verdict.get(ADMISSION_KEY)
    rule: dict[str, Any] = {"verdict": "allowed", **({"layer": step["layer"]} if step else {})}
    return {**rule, ADMISSION_KEY: admission} if admission else rule


def build_update_event(call_id: str, name: str, partial: str) -> NewEvent:
    return NewEvent("tool", {"phase": "update", "name": name, "toolCallId": call_id, "partialResult": partial})


def _build_result_event(call_id: str, name: str, result: dict[str, Any], is_error: bool, meta: dict[str, Any]) -> NewEvent:
    data = {"phase": "result", "name": name, "toolCallId": call_id, "isError": is_error, "result": result, "meta": meta}
    return NewEvent("tool", data)


def _build_result_entry(call_id: str, name: str, result: dict[str, Any], text: str, is_error: bool) -> NewEntry:
    meta = {"toolCallId": call_id, "toolName": name, "isError": is_error, "details": result["details"]}
    if images := list_attachment_ids(result["content"]):
        meta["imageIds"] = images  # also here: tool result content is too long to read for every run
    return NewEntry("tool_result", "toolResult", result["content"], text, new_message_id(), meta)


def _append(claimed: ClaimedRun, new: Sequence[NewEvent], entries: Sequence[NewEntry] = ()) -> None:
    step = RunStep(claimed.pk, claimed.session_id, claimed.lease, events=new, entries=entries, generation=claimed.generation)
    announce_run(claimed, hot_sql.commit_step(step))


def _audit_decisions(claimed: ClaimedRun, decisions: Sequence[CallDecision]) -> None:
    """Record all verdicts of a turn with one statement. A call that is waiting for approval has none yet."""
    judged = [each for each in decisions if each.status in ACTION_BY_STATUS]
    if not judged:
        return
    actor = _actor(claimed)
    audit_log.record_all(
        [_build_entry(claimed, ACTION_BY_STATUS[each.status], actor, each.call_id, each.name, _reason(each)) for each in judged]
    )


def _audit_end(claimed: ClaimedRun, call_id: str, name: str, status: ToolCall.Status) -> None:
    audit_log.record_all([_build_entry(claimed, "call.ended", _actor(claimed), call_id, name, {"outcome": str(status)})])


def _reason(decision: CallDecision) -> dict[str, Any]:
    step = None if decision.refused_by else find_allowing_step(decision.verdict, decision.name)
    layer = decision.refused_by or (step["layer"] if step else "")
    return {**({"layer": layer} if layer else {}), "policy": decision.policy_version}


def _build_entry(
    claimed: ClaimedRun, action: str, actor: Actor, call_id: str, name: str, details: dict[str, Any]
) -> audit_log.NewAuditEntry:
    details = {"call": call_id, "for": claimed.owner_id, **details}
    return audit_log.NewAuditEntry(action, actor, ("tool", name), claimed.session_id, claimed.pk, details)


def _actor(claimed: ClaimedRun) -> Actor:
    """Return the agent; or the person, for a direct tool call."""
    if not isinstance(claimed.request.kind, Invocation):
        return acting.actor_for_agent(claimed.agent)
    person = User.objects.filter(pk=claimed.owner_id).first()
    return acting.actor_for_user(person) if person else Actor("person", str(claimed.owner_id))
