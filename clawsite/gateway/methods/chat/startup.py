"""Everything a chat client needs to open a session in one response: history, session details, commands and models."""

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
    """The result is the same for every session and agent."""

    agent_id: Id | None = None
    session_key: Key | None = None


class Metadata(TypedDict):
    commands: list[CommandRow]
    models: list[Model]


@method("chat.metadata", scope=Scope.READ)
async def metadata(call: Call, params: MetadataParams) -> Metadata:
    """Return the commands and the available models, as in commands.list and models.list."""
    return await _read_metadata(call)


async def _read_metadata(call: Call) -> Metadata:
    models = await db.read(list_wire_models, usable_only=True)
    return Metadata(commands=list_command_rows(call)["commands"], models=models)


class StartupParams(Params):
    """As for chat.history; `cursor` is a `deltaCursor`."""

    session_key: Key
    agent_id: Id | None = None
    limit: int = Field(200, ge=1, le=1000)
    max_bytes: int | None = Field(None, ge=1)
    max_chars: int | None = Field(None, ge=1, le=500_000)
    cursor: DeltaCursor | None = None


class StartupAnswer(HistoryAnswer):
    """Like chat.history, with the session as in sessions.describe, null before its first message.

    With `cursor` only the messages since. A `reset` contains nothing else: request again without the cursor.
    """

    defaults: NotRequired[dict[str, Any]]
    agentsList: NotRequired[AgentsAnswer]
    metadata: NotRequired[Metadata]
    hasMore: NotRequired[bool]


@method("chat.startup", scope=Scope.READ)
async def startup(call: Call, params: StartupParams) -> StartupAnswer:
    """Return a session's newest messages with everything else that a chat shows when it is opened."""
    address = {"session_key": params.session_key, "agent_id": params.agent_id}
    options = params.model_dump(include={"limit", "max_chars", "max_bytes", "cursor"})
    page = await chat_history(call, HistoryParams(**address, **options))  # type: ignore[arg-type]
    if page.get("kind") == "reset":
        return cast("StartupAnswer", page)
    extras = {"agentsList": await db.read(list_agent_rows), "metadata": await _read_metadata(call)}
    if page.get("kind") == "delta":
        return cast("StartupAnswer", {**page, **extras})
    described = await describe(call, DescribeParams(key=params.session_key, agent_id=params.agent_id))
    info = described["session"]
    if info is not None:
        active = page.get("activeRun")
        info["hasActiveRun"], info["activeRunIds"] = active is not None, [active["runId"]] if active else []
    model = await db.read(get_session_default_model)
    return cast(
        "StartupAnswer",
        {
            **page,
            **extras,
            "messages": [openclaw.add_identity(dict(message)) for message in page["messages"]],
            "pendingInputs": openclaw.to_pending_inputs(page["queued"]),
            "hasMore": page.get("nextCursor") is not None,
            "sessionInfo": info,
            "defaults": {"modelProvider": model.partition("/")[0], "model": model.partition("/")[2], "contextTokens": None},
        },
    )
