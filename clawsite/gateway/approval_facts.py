"""What a conversation says about the commands of its tool calls: questions open or answered, refusals that could be mended."""

from collections.abc import Sequence
from typing import Any

from clawsite.gateway.session_events import ApprovalFacts
from clawsite.infra import clock
from sessions_app.models import Session
from tools_app.execution.admission import granted_with
from tools_app.execution.rules import rules_for
from tools_app.execution.supervise import NO_RULE, nobody_has_said
from tools_app.models import Approval


def add_approvals(session: Session, messages: Sequence[dict[str, Any]]) -> None:
    """Put them into the messages whose calls they are about. Call ids are unique in a run, not in a session."""
    calls = [(message, block["id"]) for message in messages for block in _calls(message)]
    if not calls:
        return
    found = Approval.objects.filter(session=session, call_id__in={call for _message, call in calls}).select_related(
        "decided_by", "run"
    )
    found = found.prefetch_related("grants")
    # The last one counts: a question that became void may have been asked anew.
    asked = {(row.run.run_id if row.run else None, row.call_id): row for row in found.defer("plan", "shown").order_by("created_at")}
    for message, call in calls:
        if row := asked.get((message.get("runId"), call)):
            message.setdefault("approvals", {})[call] = facts_of(row)


def add_offers(session: Session, messages: Sequence[dict[str, Any]]) -> None:
    """Mark the refusals for want of a rule, as long as there is none: an operator could let the agent ask."""
    refused = [message for message in messages if message.get("details", {}).get("code") == NO_RULE]
    if refused and nobody_has_said(rules_for(session.agent, str(session.pk))):
        for message in refused:
            message["letAsk"] = True


def facts_of(row: Approval) -> ApprovalFacts:
    facts = ApprovalFacts(id=str(row.pk), status=row.status, expiresAt=clock.to_ms(row.expires_at), needed=row.needed)  # type: ignore[typeddict-item]
    if row.decided_at:
        facts["decision"] = row.decision
        facts["by"] = row.decided_by.get_username() if row.decided_by else None
        facts["reason"] = row.last_reason
        facts["decidedAt"] = clock.to_ms(row.decided_at)
        facts.update(granted_with(row))  # type: ignore[typeddict-item]
    return facts


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    if message["role"] != "assistant":
        return []
    return [block for block in message["content"] if block.get("type") == "toolCall"]
