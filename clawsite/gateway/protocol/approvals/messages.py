"""Approval requests in the messages of a session: those for its tool calls, and denials that a rule could prevent."""

from collections.abc import Sequence
from typing import Any

from clawsite.gateway.protocol.events.sessions import ApprovalFacts
from clawsite.infra import clock
from sessions_app.models import Session
from tools_app.approvals.allowed_by import describe_decision
from tools_app.approvals.command_decision import NO_RULE_CODE, is_undecided
from tools_app.exec.rules import rules_for
from tools_app.models import Approval


def add_approvals(session: Session, messages: Sequence[dict[str, Any]]) -> None:
    """Add approval requests to the messages that contain their tool calls. Call IDs are unique in a run, not in a session."""
    calls = [(message, block["id"]) for message in messages for block in _list_calls(message)]
    if not calls:
        return
    rows = Approval.objects.filter(session=session, call_id__in={call for _message, call in calls}).select_related(
        "decided_by", "run"
    )
    rows = rows.prefetch_related("grants")
    # The last one counts, because a canceled request may have been repeated.
    by_call = {
        (row.run.run_id if row.run else None, row.call_id): row for row in rows.defer("plan", "shown").order_by("created_at")
    }
    for message, call in calls:
        if row := by_call.get((message.get("runId"), call)):
            message.setdefault("approvals", {})[call] = to_approval_facts(row)


def add_enable_offers(session: Session, messages: Sequence[dict[str, Any]]) -> None:
    """Mark denials due to a missing exec rule while there is still none: an operator could let the agent request commands."""
    denied = [message for message in messages if message.get("details", {}).get("code") == NO_RULE_CODE]
    if denied and is_undecided(rules_for(session.agent, str(session.pk))):
        for message in denied:
            message["letAsk"] = True


def to_approval_facts(row: Approval) -> ApprovalFacts:
    facts = ApprovalFacts(id=str(row.pk), status=row.status, expiresAt=clock.to_ms(row.expires_at), needed=row.needed)  # type: ignore[typeddict-item]
    if row.decided_at:
        facts["decidedAt"] = clock.to_ms(row.decided_at)
        facts.update(describe_decision(row))  # type: ignore[typeddict-item]
    return facts


def _list_calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    if message["role"] != "assistant":
        return []
    return [block for block in message["content"] if block.get("type") == "toolCall"]
