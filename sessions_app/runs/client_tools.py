"""Tools that the caller of a run executes: calls are handed over at the end of the run, and the next request brings the results.

The results are stored in that run's request and open it in the transcript instead of a user message.
"""

from collections.abc import Sequence

import orjson
from django.utils.translation import gettext as _

from clawsite.infra import clock, sql
from clawsite.infra.errors import Conflict, InvalidRequest
from sessions_app import tables
from sessions_app.events.journal import NewEntry, new_message_id
from sessions_app.models import Run, Session, ToolCall
from sessions_app.run_request import ClientToolResult, ToolResults
from sessions_app.transcript.rewinds import visible_condition

HANDED_OVER = "tool_calls"  # end reason of a run whose last answer has calls for the client to execute


def to_entries(results: Sequence[ClientToolResult]) -> list[NewEntry]:
    return [build_result_entry(result["callId"], result["name"], result["text"]) for result in results]


def build_result_entry(call_id: str, name: str, text: str) -> NewEntry:
    meta = {"toolCallId": call_id, "toolName": name, "isError": False, "details": {"code": "client_tool"}}
    return NewEntry("tool_result", "toolResult", [{"type": "text", "text": text}], text, new_message_id(), meta)


MAX_CALLS = 200  # in one answer; the same limit applies to results


def accept_results(session: Session, given: ToolResults) -> ToolResults:
    """Return the results with the names of their tools added. The caller has locked the session."""
    if Run.objects.filter(session=session, status__in=Run.UNFINISHED).exists():
        raise Conflict(
            _("This session has an unfinished run. Wait until it ends."),
            retryable=True,
            details={"code": "RUN_UNFINISHED"},
        )
    waiting = _open_calls(session)
    named: list[ClientToolResult] = []
    for result in given.results:
        if result["callId"] not in waiting:
            raise InvalidRequest(
                f"tool result {result['callId']!r} doesn't match an open call of this session; "
                f"open calls: {', '.join(waiting) or 'none'}",
                details={"code": "UNKNOWN_TOOL_CALL", "callId": result["callId"]},
            )
        named.append({**result, "name": waiting[result["callId"]]})
    for result in named:
        stored = {"content": [{"type": "text", "text": result["text"]}], "details": {"code": "client_tool"}}
        calls = ToolCall.objects.filter(session=session, call_id=result["callId"], status=ToolCall.Status.HANDED_OVER)
        calls.update(status=ToolCall.Status.FINISHED, result=stored, ended_at=clock.now())
    return ToolResults(tuple(named))


def _open_calls(session: Session) -> dict[str, str]:
    """Map call ID to tool name for calls in the last answer without a result. Empty if a user has written since."""
    rows = sql.fetch_rows(
        f"""
        SELECT e.role, e.content, e.meta FROM {tables.ENTRY} e JOIN {tables.SESSION} s ON s.id = e.session_id
        WHERE e.session_id = %s AND e.generation = s.generation
          AND e.kind IN ('message', 'tool_result') AND {visible_condition("e")}
        ORDER BY e.position DESC LIMIT %s
        """,
        [sql.uuid_value(session.pk), MAX_CALLS],
    )
    answered: set[str] = set()
    for role, content, meta in rows:
        if role == "toolResult":
            answered.add(orjson.loads(meta)["toolCallId"])
        elif role == "assistant":
            calls = [block for block in orjson.loads(content) if block["type"] == "toolCall"]
            made_here = ToolCall.objects.filter(session=session, call_id__in=[call["id"] for call in calls])
            ours = set(made_here.exclude(status=ToolCall.Status.HANDED_OVER).values_list("call_id", flat=True))
            return {call["id"]: call["name"] for call in calls if call["id"] not in answered | ours}
        else:
            break
    return {}
