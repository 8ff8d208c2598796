"""Methods for tools: list all, list those of a session with reasons for the others, and call one directly."""

from typing import Annotated, Any, Literal, NotRequired
from uuid import uuid4

from pydantic import Field
from typing_extensions import TypedDict

from agents.prepare.effective_tools import find_effective_tools
from agents.selectors import find_agent
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.protocol.params import Id, IdempotencyKey, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.protocol.tools import CatalogSource, EffectiveAnswer, build_effective_answer, group_of_tool, source_of_tool
from clawsite.gateway.server.registry import Call, method
from clawsite.gateway.server.session_address import ToSession, find_session
from clawsite.gateway.server.tool_invocation import DEFAULT_TIMEOUT_MS, TimeoutMs, invoke_and_wait
from clawsite.infra import db
from clawsite.routing.tool_invocation import ToolInvocation
from sessions_app.keys import DEFAULT_AGENT
from tools_app.policy.catalog import PROFILES
from tools_app.policy.matcher import compile_entries
from tools_app.sources.registry import RegisteredTool, ToolRegistry
from tools_app.sources.tools import load_tools

ToolName = Annotated[str, Field(min_length=1, max_length=128)]


class CatalogTool(TypedDict):
    """A tool. `defaultProfiles` are the tool profiles that allow it."""

    id: str
    label: str
    description: str
    source: CatalogSource
    pluginId: NotRequired[str]
    defaultProfiles: list[str]


class CatalogGroup(TypedDict):
    """A group of tools. `id` is its name in a policy without `group:`; tools of a plugin are grouped by the plugin's ID."""

    id: str
    label: str
    source: CatalogSource
    pluginId: NotRequired[str]
    tools: list[CatalogTool]


class Profile(TypedDict):
    id: str
    label: str


class CatalogParams(Params):
    agent_id: Id | None = None
    include_plugins: bool = True


class CatalogAnswer(TypedDict):
    agentId: str
    profiles: list[Profile]
    groups: list[CatalogGroup]


@method("tools.catalog", scope=Scope.READ)
async def catalog(call: Call, params: CatalogParams) -> CatalogAnswer:
    """List every tool of this server by group, whether or not the caller may use it."""
    agent, registry = await db.read(_find_registry, params.agent_id or DEFAULT_AGENT)
    tools = [each for each in registry.tools.values() if params.include_plugins or not each.facts.plugin]
    profiles = [Profile(id=name, label=name.capitalize()) for name in PROFILES]
    return CatalogAnswer(agentId=agent, profiles=profiles, groups=_group_tools(tools))


def _find_registry(agent: str) -> tuple[str, ToolRegistry]:
    return find_agent(agent).slug, load_tools()


@method("tools.effective", scope=Scope.READ)
async def effective(call: Call, params: ToSession) -> EffectiveAnswer:
    """List the tools that a message of yours in this session could use now, and why the others are denied or unavailable."""
    return build_effective_answer(await db.read(find_effective_tools, call.user, await find_session(call, params.address)))


class InvokeParams(ToSession):
    """Without `idempotencyKey` a repeated request is another call. `confirm` is OpenClaw's and is ignored."""

    name: ToolName
    args: dict[str, Any] = Field(default_factory=dict)
    idempotency_key: IdempotencyKey | None = None
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS
    confirm: bool | None = None
    conversation_read_origin: Literal["direct-operator"] | None = None  # ignored: always the case


class InvokeError(TypedDict):
    code: str
    message: str
    layer: NotRequired[str]


class InvokeAnswer(TypedDict):
    """`output` is the tool result, {content, details}. A denied call has the code tool_not_allowed and the layer's name."""

    ok: bool
    toolName: str
    runId: str
    output: NotRequired[dict[str, Any]]
    error: NotRequired[InvokeError]


@method("tools.invoke", scope=Scope.WRITE, limited=LimitedTokenRule.CARRIED)
async def invoke_(call: Call, params: InvokeParams) -> InvokeAnswer:
    """Call one tool directly, as the session's agent could: under the same policy, and recorded in the session.

    The call is queued in the session. The response is sent when it has ended or after `timeoutMs`; chat.abort with the runId stops
    it.
    """
    run_id = params.idempotency_key or f"invoke-{uuid4().hex}"
    invocation = ToolInvocation(call.user, params.name, params.args, run_id, params.address)
    outcome = await invoke_and_wait(invocation, call.runtime.hub.run_waits, params.timeout_ms)
    answer = InvokeAnswer(ok=not outcome.code, toolName=params.name, runId=run_id)
    if outcome.result:
        answer["output"] = outcome.result
    if outcome.code:
        answer["error"] = InvokeError(code=outcome.code, message=outcome.message)
        if outcome.layer:
            answer["error"]["layer"] = outcome.layer
    return answer


def _group_tools(tools: list[RegisteredTool]) -> list[CatalogGroup]:
    groups: dict[str, CatalogGroup] = {}
    for each in tools:
        facts, source = each.facts, source_of_tool(each.facts)
        name = group_of_tool(facts)
        group = groups.setdefault(name, CatalogGroup(id=name, label=name.capitalize(), source=source, tools=[]))
        row = CatalogTool(
            id=facts.name,
            label=each.factory.label,
            description=each.factory.description,
            source=source,
            defaultProfiles=[profile for profile, allow in PROFILES.items() if not allow or compile_entries(allow).find(facts)],
        )
        if facts.plugin:
            group["pluginId"] = row["pluginId"] = facts.plugin
        group["tools"].append(row)
    return [groups[name] for name in sorted(groups)]
