"""Methods for tools: list all, list those of a session with reasons for the others, and call one directly."""

from typing import Annotated, Any, Literal, NotRequired
from uuid import uuid4

from pydantic import Field
from typing_extensions import TypedDict

from agents.prepare.effective_tools import EffectiveTools, find_effective_tools
from agents.selectors import find_agent
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, Params, method
from clawsite.gateway.server.session_address import Id, IdempotencyKey, ToSession, find_session
from clawsite.gateway.server.tool_invocation import DEFAULT_TIMEOUT_MS, TimeoutMs, invoke_and_wait
from clawsite.infra import db
from clawsite.routing.tool_invocation import ToolInvocation
from sessions_app.keys import DEFAULT_AGENT
from tools_app.policy.catalog import DEFAULT_PROFILE, OPENCLAW_GROUP, PROFILES
from tools_app.policy.matcher import compile_entries
from tools_app.policy.query import ToolFacts
from tools_app.sources.registry import RegisteredTool, ToolRegistry
from tools_app.sources.tools import load_tools

ToolName = Annotated[str, Field(min_length=1, max_length=128)]
CatalogSource = Literal["core", "plugin"]
EffectiveSource = Literal["core", "plugin", "mcp"]
SOURCE_LABELS: dict[EffectiveSource, str] = {"core": "Core", "plugin": "Plugin", "mcp": "MCP"}


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


class Refused(TypedDict):
    """A denied tool: the first policy layer that denies it, and its rule."""

    id: str
    layer: str
    rule: str


class NotOffered(TypedDict):
    """An allowed tool that is unavailable in the run, and the reason."""

    id: str
    reason: str


class EffectiveTool(TypedDict):
    """A tool that the session has. `group` is its group in a policy without `group:`. `mcpToolName` is its name on its server."""

    id: str
    label: str
    description: str
    rawDescription: str
    source: EffectiveSource
    pluginId: NotRequired[str]
    mcpServer: NotRequired[str]
    mcpToolName: NotRequired[str]
    group: str


class EffectiveGroup(TypedDict):
    """Built-in tools, tools of plugins, or tools of MCP servers."""

    id: EffectiveSource
    label: str
    source: EffectiveSource
    tools: list[EffectiveTool]


class Notice(TypedDict):
    id: str
    severity: Literal["info", "warning"]
    message: str


class EffectiveAnswer(TypedDict):
    """The tools of the next run, and reasons for the others. `notices` are warnings for people, such as an ignored rule."""

    agentId: str
    profile: str
    policyVersion: int
    groups: list[EffectiveGroup]
    refused: list[Refused]
    notOffered: list[NotOffered]
    notices: list[Notice]


@method("tools.effective", scope=Scope.READ)
async def effective(call: Call, params: ToSession) -> EffectiveAnswer:
    """List the tools that a message of yours in this session could use now, and why the others are denied or unavailable."""
    return build_effective_answer(await db.read(find_effective_tools, call.user, await find_session(call, params.address)))


def build_effective_answer(effective_tools: EffectiveTools) -> EffectiveAnswer:
    verdict = effective_tools.toolset.verdict
    refused = {name: step for name in verdict.trace if (step := verdict.refused_by(name))}
    return EffectiveAnswer(
        agentId=effective_tools.agent.slug,
        profile=_find_profile(effective_tools),
        policyVersion=effective_tools.rules.version,
        groups=_group_by_source([effective_tools.known.tools[name] for name in effective_tools.toolset.tools]),
        refused=[Refused(id=name, layer=step.layer, rule=step.rule) for name, step in refused.items()],
        notOffered=[NotOffered(id=name, reason=reason) for name, reason in effective_tools.toolset.unavailable.items()],
        notices=_build_notices(effective_tools),
    )


def _find_profile(effective_tools: EffectiveTools) -> str:
    """Return the tool profile that the first layer uses."""
    return (
        effective_tools.rules.row("agent", effective_tools.agent.slug).profile
        or effective_tools.rules.row("global").profile
        or DEFAULT_PROFILE
    )


def _build_notices(effective_tools: EffectiveTools) -> list[Notice]:
    steps = [
        step
        for steps in effective_tools.toolset.verdict.trace.values()
        for step in steps
        if step.rule.startswith("allow list ignored")
    ]
    messages = dict.fromkeys(f"layer {step.layer}, row {step.row}: {step.rule}; use also allow to add plugins" for step in steps)
    return [Notice(id=f"ignored-rule-{number}", severity="warning", message=text) for number, text in enumerate(messages, 1)]


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
        facts, source = each.facts, _find_source(each.facts)
        name = _find_group(facts)
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


def _group_by_source(tools: list[RegisteredTool]) -> list[EffectiveGroup]:
    groups: dict[EffectiveSource, EffectiveGroup] = {}
    for each in tools:
        facts, served, description = each.facts, each.factory.mcp_tool, each.factory.description
        source: EffectiveSource = "mcp" if served else _find_source(facts)
        group = groups.setdefault(source, EffectiveGroup(id=source, label=SOURCE_LABELS[source], source=source, tools=[]))
        row = EffectiveTool(
            id=facts.name,
            label=each.factory.label,
            description=description,
            rawDescription=description,
            source=source,
            group=_find_group(facts),
        )
        if served:
            row["mcpServer"], row["mcpToolName"] = served
        elif facts.plugin:
            row["pluginId"] = facts.plugin
        group["tools"].append(row)
    return [groups[source] for source in sorted(groups)]


def _find_source(facts: ToolFacts) -> CatalogSource:
    return "plugin" if facts.plugin else "core"


def _find_group(facts: ToolFacts) -> str:
    own = [group for group in facts.groups if group != OPENCLAW_GROUP]
    return facts.plugin or (own[0] if own else OPENCLAW_GROUP)
