"""Read-only tools for sessions and agents: sessions_list, sessions_history, session_status, agents_list."""

import datetime as dt
from typing import Any, Literal

import orjson
from pydantic import Field

from agents import selectors
from agents.models import Agent
from agents.tools import reachable_sessions
from agents.tools.results import count_fitting, mark_untrusted
from clawsite.infra import clock, db
from sessions_app.keys import parse_key
from sessions_app.models import Run, Session, ToolCall
from sessions_app.sessions.selectors import order_by_last_use
from sessions_app.transcript.messages import MessageExcerpt, read_last_messages
from tools_app.core.definition import CallContext, ToolArgs, ToolEnv, ToolFunction, ToolResult, text_result, tool
from tools_app.core.results import json_result

UNTRUSTED_SOURCE = "sessions: messages of people, agents and tools"
MAX_SCANNED = 1_000  # sessions scanned when filtering by kind
MAX_PREVIEW_LENGTH, MAX_MESSAGE_LENGTH = 400, 4_000  # characters of a message in a list, and in a history

ListedKind = Literal["main", "group", "cron", "hook", "subagent", "other"]


class ListArgs(ToolArgs):
    kinds: list[ListedKind] = Field(default_factory=list, description="Only sessions of these kinds; leave empty for all")
    limit: int = Field(20, ge=1, le=100, description="Maximum number of sessions to list")
    active_minutes: int = Field(0, ge=0, le=525_600, description="Only sessions used in the last N minutes; 0 for no limit")
    message_limit: int = Field(0, ge=0, le=20, description="Number of latest messages to show per session")


@tool("sessions_list", group="sessions", args=ListArgs, read_only=True, idempotent=True, polls=True)
def make_sessions_list(env: ToolEnv) -> ToolFunction[ListArgs]:
    """List the sessions of the person you work for, last used first, with the keys that other tools take.
    In a session shared with others, only sessions that all of them can see are listed."""

    async def sessions_list(args: ListArgs, call: CallContext) -> ToolResult:
        return mark_untrusted(json_result(await db.read(_list_sessions, env, args)), UNTRUSTED_SOURCE)

    return sessions_list


def _list_sessions(env: ToolEnv, args: ListArgs) -> dict[str, Any]:
    sessions = reachable_sessions.find_reachable_sessions(env)
    if args.active_minutes:
        sessions = sessions.filter(updated_at__gte=clock.now() - dt.timedelta(minutes=args.active_minutes))
    scanned = MAX_SCANNED if args.kinds else args.limit
    newest = order_by_last_use(reachable_sessions.find_sender(env), sessions).select_related("owner")[: scanned + 1]
    wanted = [session for session in newest if not args.kinds or _session_kind(session) in args.kinds]
    listed = wanted[: args.limit]
    states = _run_states(listed)
    rows = [_session_row(env, session, states, args.message_limit) for session in listed]
    shown = count_fitting(rows)
    answer: dict[str, Any] = {"count": shown, "sessions": rows[:shown]}
    if shown < len(rows):
        answer["cut"] = f"{len(rows) - shown} more sessions did not fit: ask for fewer messages, or for a smaller limit"
    elif len(wanted) > len(listed):
        answer["cut"] = "there are more sessions: raise the limit, or narrow active_minutes or kinds"
    elif len(newest) > MAX_SCANNED:
        answer["cut"] = f"only the {MAX_SCANNED} most recently used sessions were searched: narrow active_minutes"
    return answer


def _session_kind(session: Session) -> ListedKind:
    kind = parse_key(session.key).kind
    return kind if kind in ("main", "group", "cron", "hook", "subagent") else "other"


def _run_states(sessions: list[Session]) -> dict[Any, str]:
    """Return the state of sessions with unfinished runs."""
    unfinished = Run.objects.filter(session__in=sessions, status__in=Run.UNFINISHED).order_by("-id")  # the oldest run wins
    return {
        session_id: "queued" if status == Run.Status.ACCEPTED else status
        for session_id, status in unfinished.values_list("session_id", "status")
    }


def _session_row(env: ToolEnv, session: Session, states: dict[Any, str], message_limit: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "key": session.key_for(env.sender_id),
        "kind": _session_kind(session),
        "agentId": session.agent,
        "label": session.label,
        "title": session.title,
        "channel": session.channel,
        "updatedAt": session.updated_at.isoformat(timespec="seconds"),
        "state": states.get(session.pk, "idle"),
    }
    if session.owner_id != env.sender_id:
        row["owner"] = session.owner.username
    if str(session.pk) == env.session_id:
        row["isThisSession"] = True
    if message_limit:
        excerpts, _ = read_last_messages(session, limit=message_limit, characters=MAX_PREVIEW_LENGTH, with_tools=False)
        row["messages"] = [_message_to_dict(each) for each in excerpts]
    return row


class HistoryArgs(ToolArgs):
    session_key: str = Field(description="Key of the session, as returned by `sessions_list`")
    limit: int = Field(50, ge=1, le=200, description="Maximum number of latest messages to show")
    include_tools: bool = Field(False, description="Show tool calls and their results too")


@tool("sessions_history", group="sessions", args=HistoryArgs, read_only=True, idempotent=True, polls=True)
def make_sessions_history(env: ToolEnv) -> ToolFunction[HistoryArgs]:
    """Show the latest messages of a session, oldest first. Long messages are cut; the result says if there are older ones."""

    async def sessions_history(args: HistoryArgs, call: CallContext) -> ToolResult:
        return mark_untrusted(json_result(await db.read(_read_history, env, args)), UNTRUSTED_SOURCE)

    return sessions_history


def _read_history(env: ToolEnv, args: HistoryArgs) -> dict[str, Any]:
    session = reachable_sessions.find_session_by_key(env, args.session_key)
    excerpts, older = read_last_messages(session, limit=args.limit, characters=MAX_MESSAGE_LENGTH, with_tools=args.include_tools)
    messages = [_message_to_dict(each) for each in excerpts]
    shown = count_fitting(messages[::-1])  # keep the newest
    left = len(messages) - shown
    answer: dict[str, Any] = {"sessionKey": session.key_for(env.sender_id), "messages": messages[left:]}
    if left:
        answer["cut"] = f"{left} of these {len(messages)} messages, the oldest, did not fit"
    elif older:
        answer["cut"] = f"only the last {len(messages)} messages are shown; there are older ones"
    return answer


def _message_to_dict(excerpt: MessageExcerpt) -> dict[str, Any]:
    message: dict[str, Any] = {"role": excerpt.role, "at": excerpt.moment.isoformat(timespec="seconds"), "text": excerpt.text}
    if excerpt.length > len(excerpt.text):
        message["cut"] = f"the first {len(excerpt.text)} of {excerpt.length} characters"
    if excerpt.tool:
        message["tool"] = excerpt.tool
    if excerpt.calls:
        message["calls"] = [{"tool": call["name"], "arguments": _shorten_arguments(call["arguments"])} for call in excerpt.calls]
    return message


def _shorten_arguments(arguments: Any) -> str:
    written = orjson.dumps(arguments).decode()
    return written if len(written) <= MAX_PREVIEW_LENGTH else f"{written[:MAX_PREVIEW_LENGTH]}…"


class StatusArgs(ToolArgs):
    session_key: str = Field("", description="Key of another session, as returned by `sessions_list`; leave empty for this session")


@tool("session_status", group="sessions", args=StatusArgs, read_only=True, idempotent=True, polls=True)
def make_session_status(env: ToolEnv) -> ToolFunction[StatusArgs]:
    """Show facts about this session or another one: its key, model, messages, tokens and cost so far."""

    async def session_status(args: StatusArgs, call: CallContext) -> ToolResult:
        facts = await db.read(_session_facts, env, args.session_key)
        return text_result("\n".join(f"{name}: {value}" for name, value in facts.items()), details=facts)

    return session_status


def _session_facts(env: ToolEnv, key: str) -> dict[str, str | int | float]:
    session = reachable_sessions.find_session_by_key(env, key) if key else Session.objects.get(pk=env.session_id)
    return {
        "session": session.key_for(env.sender_id),
        "agent": session.agent,
        "model": env.model if str(session.pk) == env.session_id else _session_model(session),
        "state": _run_states([session]).get(session.pk, "idle"),
        "started": session.created_at.isoformat(timespec="seconds"),
        "now": clock.now().isoformat(timespec="seconds"),
        "messages": session.entry_count,
        "runs": Run.objects.filter(session=session).count(),
        "tool calls": ToolCall.objects.filter(session=session).count(),
        "input tokens": session.input_tokens,
        "output tokens": session.output_tokens,
        "cost (USD)": session.cost_microusd / 1e6,
    }


def _session_model(session: Session) -> str:
    """Return the model that would give the session's next answer."""
    agent = Agent.objects.filter(slug=session.agent, enabled=True).first()
    return selectors.choose_model_name(agent, session.model) if agent else f"none: agent {session.agent} no longer exists"


class AgentsArgs(ToolArgs):
    pass


@tool("agents_list", args=AgentsArgs, read_only=True, idempotent=True, polls=True)
def make_agents_list(env: ToolEnv) -> ToolFunction[AgentsArgs]:
    """List the agents of this server. Sessions with them have keys such as `agent:<id>:main`."""

    async def agents_list(args: AgentsArgs, call: CallContext) -> ToolResult:
        return json_result(await db.read(_list_agents, env))

    return agents_list


def _list_agents(env: ToolEnv) -> dict[str, Any]:
    agents = [{"id": agent.slug, "name": agent.name, "configured": True} for agent in selectors.list_agents()]
    shown = count_fitting(agents)
    answer: dict[str, Any] = {"requester": env.agent, "allowAny": True, "agents": agents[:shown]}
    if shown < len(agents):
        answer["cut"] = f"{len(agents) - shown} more agents did not fit"
    return answer
