"""Calls of tools that the caller of a run has itself: handed over at the end of the run, answered by the caller's next request.

The results stand in that run's options, {callId, name, text}, and open it in the transcript in place of a user's message.
Whether a conversation waits for them is asked of client_results.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from clawsite.infra import clock, sql
from clawsite.infra.errors import Conflict, InvalidRequest
from sessions_app import tables
from sessions_app.events.journal import NewEntry, new_message_id
from sessions_app.models import Run, Session, ToolCall
from sessions_app.transcript.rewinds import visible_condition

CLIENT_TOOLS = "clientTools"  # in a run's options
TOOL_RESULTS = "toolResults"  # likewise
HANDED_OVER = "tool_calls"  # why a run ended whose last answer is for the caller to carry out


def client_tools_in(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Those that the caller has, each {name, description, parameters}."""
    found: list[dict[str, Any]] = options.get(CLIENT_TOOLS, [])
    return found


def tool_results_in(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = options.get(TOOL_RESULTS, [])
    return found


def to_entries(results: Sequence[Mapping[str, Any]]) -> list[NewEntry]:
    return [build_result_entry(result["callId"], result["name"], result["text"]) for result in results]


def build_result_entry(call_id: str, name: str, text: str) -> NewEntry:
    meta = {"toolCallId": call_id, "toolName": name, "isError": False, "details": {"code": "client_tool"}}
    return NewEntry("tool_result", "toolResult", [{"type": "text", "text": text}], text, new_message_id(), meta)


MAX_CALLS = 200  # of one answer, and as many results


def accept_results(session: Session, options: dict[str, Any]) -> dict[str, Any]:
    """The options with the name of each result's tool. Whoever calls this has locked the session."""
    if Run.objects.filter(session=session, status__in=Run.UNFINISHED).exists():
        raise Conflict("the session has an unfinished run; wait for its end", retryable=True, details={"code": "RUN_UNFINISHED"})
    waiting = _open_calls(session)
    named = []
    for result in tool_results_in(options):
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
    return {**options, TOOL_RESULTS: named}


def _open_calls(session: Session) -> dict[str, str]:
    """Call id -> name of the tool, of the calls in the last answer that have no result. None if a user has spoken since."""
    newest = sql.fetch_rows(
        f"""
        SELECT e.role, e.content, e.meta FROM {tables.ENTRY} e JOIN {tables.SESSION} s ON s.id = e.session_id
        WHERE e.session_id = %s AND e.generation = s.generation AND e.kind IN ('message', 'tool_result') AND {visible_condition("e")}
        ORDER BY e.position DESC LIMIT %s
        """,
        [sql.uuid_value(session.pk), MAX_CALLS],
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
