"""Results that the caller of a run brings for its own tools: taken only while the conversation waits for them."""

from typing import Any

import orjson

from clawsite.infra import clock
from clawsite.infra.errors import Conflict, InvalidRequest
from sessions_app import sql
from sessions_app.client_calls import RESULTS, results_in
from sessions_app.models import Run, Session, ToolCall
from sessions_app.rewinds import visible

MOST_CALLS = 200  # of one answer, and as many results


def take_results(session: Session, options: dict[str, Any]) -> dict[str, Any]:
    """The options with the name of each result's tool. Whoever calls this has locked the session."""
    if Run.objects.filter(session=session, status__in=Run.UNFINISHED).exists():
        raise Conflict("the session has an unfinished run; wait for its end", retryable=True, details={"code": "RUN_UNFINISHED"})
    waiting = _open_calls(session)
    named = []
    for result in results_in(options):
        if result["callId"] not in waiting:
            raise InvalidRequest(
                f"the result for call {result['callId']!r} answers no open call of this conversation; "
                f"open are: {', '.join(waiting) or 'none'}",
                details={"code": "UNKNOWN_TOOL_CALL", "callId": result["callId"]},
            )
        named.append({**result, "name": waiting[result["callId"]]})
    for result in named:
        stored = {"content": [{"type": "text", "text": result["text"]}], "details": {"code": "client_tool"}}
        calls = ToolCall.objects.filter(session=session, call_id=result["callId"], status=ToolCall.Status.HANDED_OVER)
        calls.update(status=ToolCall.Status.FINISHED, result=stored, ended_at=clock.now())
    return {**options, RESULTS: named}


def _open_calls(session: Session) -> dict[str, str]:
    """Call id -> name of the tool, of the calls in the last answer that have no result. None if a user has spoken since."""
    newest = sql.rows(
        f"""
        SELECT e.role, e.content, e.meta FROM {sql.ENTRY} e JOIN {sql.SESSION} s ON s.id = e.session_id
        WHERE e.session_id = %s AND e.generation = s.generation AND e.kind IN ('message', 'tool_result') AND {visible("e")}
        ORDER BY e.position DESC LIMIT %s
        """,
        [sql.uuid_value(session.pk), MOST_CALLS],
    )
    answered: set[str] = set()
    for role, content, meta in newest:
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
