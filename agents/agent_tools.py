"""Tools that reach the agents' own world: sessions now, more later. Found by the registry like every `agent_tools` module."""

from clawsite.infra import clock, db
from sessions_app.models import Run, Session, ToolCall
from tools_app.definition import Call, Execute, ToolArgs, ToolEnv, ToolResult, text_result, tool


class StatusArgs(ToolArgs):
    pass


@tool("session_status", group="sessions", args=StatusArgs, read_only=True)
def make_session_status(env: ToolEnv) -> Execute[StatusArgs] | None:
    """Show facts about this session: its key, model, messages, tokens and cost so far."""

    async def session_status(args: StatusArgs, call: Call) -> ToolResult:
        facts = await db.read(_facts, env)
        return text_result("\n".join(f"{name}: {value}" for name, value in facts.items()), details=facts)

    return session_status


def _facts(env: ToolEnv) -> dict[str, str | int | float]:
    session = Session.objects.get(pk=env.session_id)
    return {
        "session": session.key,
        "agent": session.agent,
        "model": env.model,
        "started": session.created_at.isoformat(timespec="seconds"),
        "now": clock.now().isoformat(timespec="seconds"),
        "messages": session.entry_count,
        "runs": Run.objects.filter(session=session).count(),
        "tool calls": ToolCall.objects.filter(session=session).count(),
        "input tokens": session.input_tokens,
        "output tokens": session.output_tokens,
        "cost (USD)": session.cost_microusd / 1e6,
    }
