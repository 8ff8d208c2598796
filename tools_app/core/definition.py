"""The definition of a tool: arguments, factory, result. Pure: no Django, no policy, no execution.

A tool is written as a factory that closes over the run's `ToolEnv`; its docstring is what the model reads:

    @tool("read", group="fs", args=ReadArgs, read_only=True)
    def make_read(env: ToolEnv) -> ToolFunction[ReadArgs]:
        '''Show part of a text file from the workspace.'''

A factory raises `ToolUnavailable` with the reason when its tool can't be used in the run.
"""

import asyncio
import inspect
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from clawsite.infra.reasons import Reason

# Re-exported, so that a tool module needs only this import.
from tools_app.core.arguments import BadArguments as BadArguments
from tools_app.core.arguments import BlankAllowedStr as BlankAllowedStr
from tools_app.core.arguments import Check, json_schema, make_check
from tools_app.core.arguments import ToolArgs as ToolArgs
from tools_app.core.supervision import Plan, Supervisor

logger = logging.getLogger(__name__)

# What every provider accepts as a function name; lowercase only, because policy entries ignore case.
TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
NO_TIMEOUT = math.inf  # for a tool that handles its own timeout per call


class ToolFailed(Exception):
    """The tool failed. The message goes to the model, so it should say what to do instead; `code` is for programs."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class ToolUnavailable(Exception):
    """The tool can't be used in this run. The reason says why and, if possible, how to change that; plugins may give plain text.

    It is shown on the tools page, and to a model that calls the tool anyway.
    """

    def __init__(self, reason: Reason | str) -> None:
        super().__init__(reason)
        self.reason = Reason.of(reason)


@dataclass(frozen=True, slots=True)
class TextBlock:
    text: str

    def to_json(self) -> dict[str, Any]:
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class ImageBlock:
    data: str  # base64
    mime_type: str
    name: str = "image"

    def to_json(self) -> dict[str, Any]:
        return {"type": "image", "data": self.data, "mimeType": self.mime_type}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """`content` goes back to the model; `details` are only for people and programs."""

    content: tuple[TextBlock | ImageBlock, ...]
    details: dict[str, Any] = field(default_factory=dict)
    is_error: bool = False

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))

    def to_json(self) -> dict[str, Any]:
        """The wire form; `is_error` is sent separately, as `isError` of the event or message."""
        return {"content": [block.to_json() for block in self.content], "details": self.details}


def text_result(text: str, *, details: dict[str, Any] | None = None, is_error: bool = False) -> ToolResult:
    return ToolResult(content=(TextBlock(text),), details=details or {}, is_error=is_error)


@dataclass(frozen=True, slots=True)
class CallRef:
    """One call as the model requested it."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolStarted:
    call: CallRef


@dataclass(frozen=True, slots=True)
class ToolUpdated:
    call: CallRef
    partial: ToolResult


@dataclass(frozen=True, slots=True)
class ToolEnded:
    call: CallRef
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Deferred:
    """Returned by a tool function instead of a result: the result comes later.

    The run parks until the row `ref` of this `kind` is settled or `deadline_s` seconds have passed. Then any worker calls the
    tool's `resume`, which reads that row. `ref` must be committed before the tool function returns.
    """

    kind: str
    ref: str
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class DeferredCall:
    """A call whose result comes later, when it is resumed."""

    call: CallRef  # with the arguments it ran with
    kind: str
    ref: str
    overdue: bool = False  # the deadline has passed


@dataclass(frozen=True, slots=True)
class ToolDeferred:
    call: CallRef
    deferred: Deferred


ToolEvent = ToolStarted | ToolUpdated | ToolDeferred | ToolEnded


@dataclass(frozen=True, slots=True)
class CallContext:
    """The context of a running call. `update` reports progress and must be called on the event loop."""

    call_id: str
    update: Callable[[ToolResult], None]
    abort: asyncio.Event
    plan: Plan | None = None  # for a supervised tool: exactly what to carry out
    may_act: Callable[[], bool] = lambda: True  # whether this worker still holds the run; checked right before acting


@dataclass(frozen=True, slots=True)
class AgentWorkspace:
    """The agent's workspace, as a command in a session with an isolated workspace sees it."""

    path: Path
    access: Literal["none", "ro"]


@dataclass(frozen=True, slots=True)
class ToolEnv:
    """The environment of a run's tools: owner, agent, session, workspace. Without a workspace there are no file tools."""

    workspace: Path | None
    agent: str
    owner_id: int
    session_id: str
    session_key: str
    run_pk: int | None = None  # None when called outside a run
    model: str = ""
    takes_images: bool = False  # whether the model accepts images
    agent_workspace: AgentWorkspace | None = None  # set when the session's workspace is isolated from the agent's
    through: tuple[tuple[str, str], ...] = ()  # (agent, session) of each sender that relayed the message
    sender_id: int = 0  # sender of the message that started the run, possibly a guest; default: the owner
    tools: frozenset[str] = frozenset()  # names of all tools the policy allows in this run
    search_providers: Mapping[str, Callable[[], Any]] = field(default_factory=dict)  # web_search engines from plugins

    def __post_init__(self) -> None:
        if not self.sender_id:
            object.__setattr__(self, "sender_id", self.owner_id)


A = TypeVar("A", bound=ToolArgs)
ToolFunction = Callable[[A, CallContext], Awaitable[ToolResult | Deferred]]
# Builds the result of a deferred call from the row it refers to; None if the row is not settled and the call is not overdue.
# It may be called several times, on any worker.
Resume = Callable[[ToolEnv, DeferredCall], Awaitable[ToolResult | None]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool created for one run. Only tools_app.execute calls `perform`, and only for an authorized call."""

    name: str
    description: str
    parameters: dict[str, Any]
    check: Check
    read_only: bool
    idempotent: bool
    polls: bool
    timeout_s: float | None
    perform: Callable[[Any, CallContext], Awaitable[ToolResult | Deferred]]
    supervisor: Supervisor | None = None  # for supervised tools
    resume: Callable[[DeferredCall], Awaitable[ToolResult | None]] | None = None  # for tools that return Deferred

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description, "parameters": self.parameters}


@dataclass(frozen=True, slots=True)
class ToolFactory:
    """A declared tool. `create` builds it for one run, or raises ToolUnavailable with the reason.

    `idempotent`: repeating the call is safe, so it is retried once after a timeout. `polls`: repeating the same call is normal
    use, so the loop guard allows more repeats. `timeout_s` defaults to CLAWSITE_TOOL_TIMEOUT_SECONDS; NO_TIMEOUT disables the
    outer timeout. The factory of a `supervised` tool returns a callable that is also a `Supervisor`: each call is planned, decided
    and, if needed, shown to approvers before it runs. A tool that returns `Deferred` needs `resume`. `mcp_tool` is the MCP server
    and the tool's name there.
    """

    name: str
    label: str  # for people
    group: str
    description: str
    parameters: dict[str, Any]
    check: Check
    make: Callable[[ToolEnv], Callable[[Any, CallContext], Awaitable[ToolResult | Deferred]]]
    read_only: bool = False
    idempotent: bool = False
    polls: bool = False
    owner_only: bool = False
    supervised: bool = False
    timeout_s: float | None = None
    resume: Resume | None = None
    mcp_tool: tuple[str, str] | None = None

    def create(self, env: ToolEnv) -> Tool:
        try:
            perform = self.make(env)
        except ToolUnavailable:
            raise
        except Exception as error:  # a broken tool must not take the others down
            _log_once(self.name, type(error).__name__)
            raise ToolUnavailable(Reason("tool.factory_failed", error=type(error).__name__)) from error
        supervisor = perform if self.supervised and isinstance(perform, Supervisor) else None
        if self.supervised and supervisor is None:
            raise ToolUnavailable(Reason("tool.factory_without_plan"))
        if not callable(perform):  # a plugin factory that forgot to return its function
            raise ToolUnavailable(Reason("tool.factory_without_function"))
        return Tool(
            self.name,
            self.description,
            self.parameters,
            self.check,
            self.read_only,
            self.idempotent,
            self.polls,
            self.timeout_s,
            perform,
            supervisor,
            partial(self.resume, env) if self.resume else None,
        )


@cache
def _log_once(name: str, kind: str) -> None:
    """Log a failing factory once: every run and page calls it, and it fails the same way each time."""
    logger.exception("factory of tool %s failed (%s); the tool is unavailable", name, kind)


def tool(
    name: str,
    *,
    args: type[A],
    label: str = "",
    group: str = "",
    read_only: bool = False,
    idempotent: bool = False,
    polls: bool = False,
    owner_only: bool = False,
    supervised: bool = False,
    timeout_s: float | None = None,
    resume: Resume | None = None,
) -> Callable[[Callable[[ToolEnv], ToolFunction[A]]], ToolFactory]:
    """Declare a tool. `group` is the name without `group:`; read-only calls may run concurrently."""

    def declare(make: Callable[[ToolEnv], ToolFunction[A]]) -> ToolFactory:
        description = inspect.getdoc(make)
        if not TOOL_NAME.fullmatch(name):
            raise TypeError(f"invalid tool name {name!r}: use up to 64 lowercase letters, digits and _, starting with a letter")
        if not description:
            raise TypeError(f"the factory of tool {name} needs a docstring: the model reads it")
        return ToolFactory(
            name=name,
            label=label or name.replace("_", " ").capitalize(),
            group=group,
            description=description,
            parameters=json_schema(args),
            check=make_check(args),
            make=make,
            read_only=read_only,
            idempotent=idempotent,
            polls=polls,
            owner_only=owner_only,
            supervised=supervised,
            timeout_s=timeout_s,
            resume=resume,
        )

    return declare
