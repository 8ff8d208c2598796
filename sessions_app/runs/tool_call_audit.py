"""Audit log entries for tool calls: every verdict with its layer and policy version, and how each call ended.

Arguments and results are not logged: they are in the call's row, for users who can read the session.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from clawsite.accounts.models import User
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.audit.actor import Actor
from sessions_app.models import ToolCall
from sessions_app.runs.types import ClaimedRun
from sessions_app.verdicts import find_allowing_step

ACTION_BY_STATUS = {ToolCall.Status.ALLOWED: "call.allowed", ToolCall.Status.REFUSED: "call.refused"}


class AuditableDecision(Protocol):
    """The decision fields used here (tool_calls.py imports this module)."""

    @property
    def call_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def status(self) -> ToolCall.Status: ...
    @property
    def refused_by(self) -> str: ...
    @property
    def verdict(self) -> dict[str, Any]: ...
    @property
    def policy_version(self) -> int: ...


def record_decisions(claimed: ClaimedRun, decisions: Sequence[AuditableDecision]) -> None:
    """Record all verdicts of a turn with one statement. A call that is waiting for approval has none yet."""
    judged = [each for each in decisions if each.status in ACTION_BY_STATUS]
    if not judged:
        return
    actor = _actor(claimed)
    audit_log.record_all(
        [_build_entry(claimed, ACTION_BY_STATUS[each.status], actor, each.call_id, each.name, _reason(each)) for each in judged]
    )


def record_end(claimed: ClaimedRun, call_id: str, name: str, status: ToolCall.Status) -> None:
    audit_log.record_all([_build_entry(claimed, "call.ended", _actor(claimed), call_id, name, {"outcome": str(status)})])


def _reason(decision: AuditableDecision) -> dict[str, Any]:
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
    if "invoke" not in claimed.options:
        return acting.actor_for_agent(claimed.agent)
    person = User.objects.filter(pk=claimed.owner_id).first()
    return acting.actor_for_user(person) if person else Actor("person", str(claimed.owner_id))
