"""What a tool is: arguments, a factory, a result. Pure: no Django, no policy, nothing is executed here.

A tool is written as a factory that closes over the run's `ToolEnv`; its docstring is what the model reads:

    @tool("read", group="fs", args=ReadArgs, read_only=True)
    def make_read(env: ToolEnv) -> Execute[ReadArgs]:
        '''Show part of a text file from the workspace.'''

A factory whose tool has no place in the run raises `Declined`, which says why.
"""

import asyncio
import inspect
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

# A tool finds everything it is declared with here.
from tools_app.core.arguments import BadArguments as BadArguments
from tools_app.core.arguments import BlankAllowedStr as BlankAllowedStr
from tools_app.core.arguments import Check, json_schema, make_check
from tools_app.core.arguments import ToolArgs as ToolArgs
from tools_app.core.supervision import Plan

logger = logging.getLogger(__name__)

# What every provider takes as a function name; upper case is left out because policy entries ignore case.
TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
NO_TIMEOUT = math.inf  # time-out of a tool that sees to its time itself, call by call


class ToolFailed(Exception):
    """The tool could not do it. The message goes to the model, so it says what to do instead."""


class ToolUnavailable(Exception):
    """A factory's tool has no place in this run. The message says why and, if something can be done about it, what.

    People read it where they look for the tool, in their language if sessions_app.labels.rules knows the words; so does a model
    that asks for the tool all the same.
    """


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
    """What goes back to the model (`content`) and what only people and programs see (`details`)."""

    content: tuple[TextBlock | ImageBlock, ...]
    details: dict[str, Any] = field(default_factory=dict)
    is_error: bool = False

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))

    def to_json(self) -> dict[str, Any]:
        """The wire form; `is_error` travels beside it, as `isError` of the event or message."""
        return {"content": [block.to_json() for block in self.content], "details": self.details}


def text_result(text: str, *, details: dict[str, Any] | None = None, is_error: bool = False) -> ToolResult:
    return ToolResult(content=(TextBlock(text),), details=details or {}, is_error=is_error)


@dataclass(frozen=True, slots=True)
class CallRef:
    """One call as the model asked for it."""

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


ToolEvent = ToolStarted | ToolUpdated | ToolEnded


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a running tool knows about its call. `update` shows progress and must be called on the event loop."""

    call_id: str
    update: Callable[[ToolResult], None]
    abort: asyncio.Event
    plan: Plan | None = None  # of a supervised tool: exactly this is carried out
    may_act: Callable[[], bool] = lambda: True  # whether the run is still ours, asked last of all before something begins


@dataclass(frozen=True, slots=True)
class AgentWorkspace:
    """The agent's own workspace, as a command in a sandboxed session sees it."""

    path: Path
    access: Literal["none", "ro"]


@dataclass(frozen=True, slots=True)
class ToolEnv:
    """For whom and where the tools of a run work. Without a workspace there are no file tools."""

    workspace: Path | None
    agent: str
    owner_id: int
    session_id: str
    session_key: str
    run_pk: int | None = None  # none: called from outside a run
    model: str = ""
    takes_images: bool = False  # whether that model can look at images
    beside: AgentWorkspace | None = None  # in a sandbox whose workspace is not the agent's own
    through: tuple[tuple[str, str], ...] = ()  # agent and session of those that the message was passed on by
    sender_id: int = 0  # who sent the message that started the run, which may be a guest; left out: the owner
    tools: frozenset[str] = frozenset()  # names of all that the policy leaves this run
    search_providers: Mapping[str, Callable[[], Any]] = field(default_factory=dict)  # what plugins bring to web_search

    def __post_init__(self) -> None:
        if not self.sender_id:
            object.__setattr__(self, "sender_id", self.owner_id)


A = TypeVar("A", bound=ToolArgs)
ToolFunction = Callable[[A, CallContext], Awaitable[ToolResult]]
MakePlan = Callable[[Any, CallRef], Awaitable[Any]]  # what the call would do, or ToolFailed


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool made for one run. `perform` is called by tools_app.execute for an authorised call, and by nothing else."""

    name: str
    description: str
    parameters: dict[str, Any]
    check: Check
    read_only: bool
    idempotent: bool
    polls: bool
    timeout_s: float | None
    perform: Callable[[Any, CallContext], Awaitable[ToolResult]]
    plan: MakePlan | None = None  # of a supervised tool

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description, "parameters": self.parameters}


@dataclass(frozen=True, slots=True)
class ToolFactory:
    """A declared tool. `create` makes it for one run; Declined says why it has no place there.

    `idempotent` promises that doing it twice is as good as once: after a time-out it is tried once more. `polls` says that
    asking the same again and again is its use, so that the loop guard has more patience. Without `timeout_s` it has the
    installation's (`CLAWSITE_TOOL_TIMEOUT_SECONDS`), with BY_ITSELF none from outside. A `supervised` tool's factory returns a
    callable that has a `plan` too: what it says it would do is judged, and perhaps shown to people, before it may.
    `served` are the MCP server it comes from and its name there.
    """

    name: str
    label: str  # for people
    group: str
    description: str
    parameters: dict[str, Any]
    check: Check
    make: Callable[[ToolEnv], Callable[[Any, CallContext], Awaitable[ToolResult]]]
    read_only: bool = False
    idempotent: bool = False
    polls: bool = False
    owner_only: bool = False
    supervised: bool = False
    timeout_s: float | None = None
    mcp_tool: tuple[str, str] | None = None

    def create(self, env: ToolEnv) -> Tool:
        try:
            perform = self.make(env)
        except ToolUnavailable:
            raise
        except Exception as error:  # one tool that is broken must not cost the run all others
            _log_once(self.name, type(error).__name__)
            raise ToolUnavailable(f"it could not be made, see the log: `{type(error).__name__}`") from error
        plan: MakePlan | None = getattr(perform, "plan", None)
        if self.supervised and plan is None:
            raise ToolUnavailable("its factory makes no plan of what it would do")
        if not callable(perform):  # a factory without its last line, in a plugin that nobody has checked
            raise ToolUnavailable("its factory returns nothing that could be called")
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
            plan if self.supervised else None,
        )


@cache
def _log_once(name: str, kind: str) -> None:
    """A factory is asked by every run and every page, and fails in the same way each time."""
    logger.exception("the factory of tool %s failed (%s); agents go without it", name, kind)


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
) -> Callable[[Callable[[ToolEnv], ToolFunction[A]]], ToolFactory]:
    """Declare a tool. `group` is a name without its `group:`; read-only calls may run beside each other."""

    def declare(make: Callable[[ToolEnv], ToolFunction[A]]) -> ToolFactory:
        description = inspect.getdoc(make)
        if not TOOL_NAME.fullmatch(name):
            raise TypeError(f"{name!r} is no tool name: lower-case letters, digits and _, at most 64")
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
        )

    return declare
