"""What a chat client needs when it opens a session, in one answer: its history, its facts, and what can be chosen in it."""

from typing import Any, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.methods.agents import AgentsAnswer, list_agent_rows
from clawsite.gateway.methods.chat.history import DeltaCursor, HistoryAnswer, HistoryParams, chat_history
from clawsite.gateway.methods.chat.session_aliases import DescribeParams, describe
from clawsite.gateway.methods.chat.slash_commands import CommandRow, list_command_rows
from clawsite.gateway.methods.defaults import get_session_default_model
from clawsite.gateway.methods.models import Model, list_wire_models
from clawsite.gateway.protocol import openclaw
from clawsite.gateway.protocol.params import Id, Key, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, method
from clawsite.infra import db


class MetadataParams(Params):
    """The same for every session and agent."""

    agent_id: Id | None = None
    session_key: Key | None = None


class Metadata(TypedDict):
    commands: list[CommandRow]
    models: list[Model]


@method("chat.metadata", scope=Scope.READ)
async def metadata(call: Call, params: MetadataParams) -> Metadata:
    """The commands and the usable models, as commands.list and models.list tell them."""
    return await _read_metadata(call)


async def _read_metadata(call: Call) -> Metadata:
    models = await db.read(list_wire_models, usable_only=True)
    return Metadata(commands=list_command_rows(call)["commands"], models=models)


class StartupParams(Params):
    """All of them as for chat.history; `cursor` is a `deltaCursor`."""

    session_key: Key
    agent_id: Id | None = None
    limit: int = Field(200, ge=1, le=1000)
    max_bytes: int | None = Field(None, ge=1)
    max_chars: int | None = Field(None, ge=1, le=500_000)
    cursor: DeltaCursor | None = None


class StartupAnswer(HistoryAnswer):
    """Like chat.history, and beside it the session as sessions.describe tells it, null before its first message.

    With `cursor` only what was said since. A `reset` has nothing else: ask again without it.
    """

    defaults: NotRequired[dict[str, Any]]
    agentsList: NotRequired[AgentsAnswer]
    metadata: NotRequired[Metadata]
    hasMore: NotRequired[bool]


@method("chat.startup", scope=Scope.READ)
async def startup(call: Call, params: StartupParams) -> StartupAnswer:
    """The newest messages of a session with everything else that a chat shows when it is opened."""
    where = {"session_key": params.session_key, "agent_id": params.agent_id}
    wishes = params.model_dump(include={"limit", "max_chars", "max_bytes", "cursor"})
    page = await chat_history(call, HistoryParams(**where, **wishes))  # type: ignore[arg-type]
    if page.get("kind") == "reset":
        return cast("StartupAnswer", page)
    beside = {"agentsList": await db.read(list_agent_rows), "metadata": await _read_metadata(call)}
    if page.get("kind") == "delta":
        return cast("StartupAnswer", {**page, **beside})
    told = await describe(call, DescribeParams(key=params.session_key, agent_id=params.agent_id))
    info = told["session"]
    if info is not None:
        active = page.get("activeRun")
        info["hasActiveRun"], info["activeRunIds"] = active is not None, [active["runId"]] if active else []
    model = await db.read(get_session_default_model)
    return cast(
        "StartupAnswer",
        {
            **page,
            **beside,
            "messages": [openclaw.add_identity(dict(message)) for message in page["messages"]],
            "pendingInputs": openclaw.to_pending_inputs(page["queued"]),
            "hasMore": page.get("nextCursor") is not None,
            "sessionInfo": info,
            "defaults": {"modelProvider": model.partition("/")[0], "model": model.partition("/")[2], "contextTokens": None},
        },
    )
