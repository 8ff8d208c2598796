"""Preview of a run's tools: the same tools that the run gets, and a reason for each missing one."""

import pytest

from agents.llm.messages import ToolCallRequest
from agents.models import Agent
from agents.prepare.effective_tools import NOT_INSTALLED, find_effective_tools, find_unavailable_tools
from agents.prepare.model_plan import plan_for_model
from agents.prepare.run_plan import prepare_run
from agents.tool_calls.authorize import authorize_calls
from agents.tool_calls.propose import propose_calls
from clawsite.gateway.methods import tools as methods
from clawsite.gateway.protocol import tools as protocol_tools
from clawsite.infra import db
from clawsite.infra.reasons import Reason
from sessions_app.run_request import RunRequest
from sessions_app.runs import lifecycle, queue
from tests.harness.policies import restore_policy
from tools_app.models import ExecRule, McpServer
from tools_app.policy.query import PolicyQuery
from tools_app.policy_store import policies, source_changes
from tools_app.policy_store.vocabulary import with_all_tools
from tools_app.sources.mcp import servers
from tools_app.sources.mcp.listing import ToolListing

pytestmark = pytest.mark.dialect

NO_ENGINE = Reason("tool.no_search_engine")


@pytest.fixture
def policy(database):
    with restore_policy():
        yield policies


@pytest.fixture
def model(settings, monkeypatch):
    """The server's default model, which can't be reached: there is no API key."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    settings.DEFAULT_MODEL = "openai/gpt-5"


async def planned(user, session, **options):
    """Return the plan of a run started by this message."""
    await db.write(
        lambda: lifecycle.accept_run(user=user, session=session, run_id="k1", prompt="hi", request=RunRequest.from_json(options)),
        alone=True,
    )
    (claimed,) = (await db.write(queue.claim_runs, "test", 1, alone=True)).runs
    run = await prepare_run(claimed)
    return await plan_for_model(run, run.model_name)


async def test_effective_tools_query_matches_query_of_run(user, make_session, policy, settings):
    settings.DEFAULT_MODEL = "demo/clawsite"
    policy.save_policy(scope="group", channel="telegram", group="-100", sender="anna", deny=["glob"])
    session = make_session(user, "agent:main:telegram:group:-100")
    plan = await planned(user, session, sender={"id": "7", "username": "@Anna"})
    seen = (await db.read(find_effective_tools, user, session)).toolset
    assert seen.query == plan.toolset.query
    assert seen.query.sender.username == "@Anna"
    assert seen.verdict == plan.toolset.verdict
    assert seen.verdict.refused_by("glob").layer == "group"
    assert (seen.tools.keys(), seen.unavailable) == (plan.toolset.tools.keys(), plan.toolset.unavailable)
    assert "apply_patch" in seen.unavailable


async def test_guest_query_uses_their_own_sender_names(user, make_user, make_session, policy, settings):
    settings.DEFAULT_MODEL = "demo/clawsite"
    ExecRule.objects.create(scope="installation", sandbox_mode="off")  # whose own list would exclude notes
    session = make_session(user, "agent:main:telegram:group:-100")
    await planned(user, session, sender={"username": "@Anna"})
    theirs = (await db.read(find_effective_tools, make_user(), session)).toolset
    assert (theirs.query.sender.username, theirs.query.is_owner) == ("", False)
    assert theirs.unavailable["memory_search"] == Reason("tool.notes_of_owner")


async def test_direct_tool_call_needs_no_model_key(user, make_session, model):
    from agents.llm.base import ProviderError

    plan = await planned(user, make_session(user), invoke={"name": "read", "args": {}})
    assert (plan.model.display_name, plan.run.invoked_call.name) == ("openai/gpt-5", "read")
    assert "apply_patch" in plan.toolset.tools
    await db.write(lambda: lifecycle.accept_run(user=user, session=make_session(user, "agent:main:b"), run_id="k2", prompt="hi"))
    (claimed,) = (await db.write(queue.claim_runs, "test", 1, alone=True)).runs
    run = await prepare_run(claimed)
    with pytest.raises(ProviderError, match="set OPENAI_API_KEY"):
        await plan_for_model(run, run.model_name)


async def test_another_model_of_the_run_gets_its_own_tools_schemas_and_policy(user, make_session, policy, settings, monkeypatch):
    settings.DEFAULT_MODEL = "openai/gpt-5"
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "x")
    policy.save_policy(scope="agent", subject="main", provider="gemini", deny=["write"])
    plan = await planned(user, make_session(user))
    other = await plan_for_model(plan.run, "gemini/gemini-2.5-pro")
    assert (plan.run is other.run, plan.history.messages) == (True, other.history.messages)
    assert (plan.request.model, other.request.model) == (plan.model.name, other.model.name)
    assert (plan.toolset.query.provider, other.toolset.query.provider) == ("openai", "gemini")
    assert "write" in plan.toolset.tools
    assert other.toolset.verdict.refused_by("write").layer == "agent_provider"
    assert "write" not in [tool.name for tool in other.request.tools]
    schemas = [{tool.name: tool.parameters for tool in each.request.tools}["read"] for each in (plan, other)]
    assert schemas[0] != schemas[1]
    calls = await propose_calls([ToolCallRequest("c1", "write", {"path": "a", "content": "x"})], [], other)
    decided = await db.write(authorize_calls, plan.run.claimed, calls, other)
    assert decided["c1"].authorization.layer == "agent_provider"


@pytest.mark.parametrize(
    ("wanted", "provider", "name"),
    [
        ("anthropic/claude-opus-5", "anthropic", "claude-opus-5"),
        ("litellm:openai/gpt-5", "openai", "gpt-5"),
        ("gpt-5", "openai", "gpt-5"),
    ],
)
def test_policy_query_uses_model_without_key(user, make_session, model, settings, wanted, provider, name):
    settings.DEFAULT_MODEL = wanted
    query = find_effective_tools(user, make_session(user)).toolset.query
    assert (query.provider, query.model) == (provider, name)


def asked(**question) -> dict[str, Reason]:
    return find_unavailable_tools(with_all_tools(PolicyQuery("main", **{"is_owner": True} | question)), 1)


def test_each_unavailable_tool_has_its_reason(model, policy, settings):
    with_openai = asked(provider="openai", model="gpt-5")
    assert with_openai["web_search"] == NO_ENGINE
    assert with_openai["browser"] == NOT_INSTALLED
    assert not {"read", "image", "apply_patch", "memory_get", "message", "session_status"} & with_openai.keys()
    other = asked(provider="deepseek", model="deepseek-chat", is_owner=False)
    assert other["image"] == Reason("tool.no_image_input", model="deepseek/deepseek-chat")
    assert other["apply_patch"] == Reason("tool.openai_only", model="deepseek/deepseek-chat")
    assert other["memory_get"] == Reason("tool.notes_of_owner")
    settings.BRAVE_API_KEY = "x"
    assert "web_search" not in asked()


def test_unspecified_model_falls_back_to_agent_model(model, policy, settings):
    assert "apply_patch" not in asked()
    Agent.objects.filter(slug="main").update(model="deepseek/deepseek-chat")
    try:
        assert asked()["image"].params == {"model": "deepseek/deepseek-chat"}
    finally:
        Agent.objects.filter(slug="main").update(model="")
    assert "image" not in asked(provider="deepseek")  # visible for some of its models
    assert asked(provider="anthropic")["apply_patch"].params == {"model": "anthropic/*"}


def test_availability_query_creates_no_files(model, policy, settings, tmp_path):
    settings.HOME = tmp_path
    query = with_all_tools(PolicyQuery("../nobody", is_owner=True, is_subagent=True, channel="x", group="y"))
    assert find_unavailable_tools(query, 1)["web_search"] == NO_ENGINE
    assert list(tmp_path.iterdir()) == []


async def test_ignored_policy_rule_produces_notice(user, make_session, policy, echo):
    policy.save_policy(scope="agent", subject="main", profile="full", allow=["echo"])
    seen = await db.read(find_effective_tools, user, make_session(user))
    told = "layer agent, row agent:main: allowlist ignored, because it names only plugins; use “also allow” to add plugins"
    assert [notice["message"] for notice in protocol_tools._build_notices(seen)] == [told]
    policy.save_policy(scope="agent", subject="main", profile="full", allow=["echo", "read"])
    assert protocol_tools._build_notices(await db.read(find_effective_tools, user, make_session(user))) == []


async def test_mcp_tools_include_server_and_original_name(user, make_session, policy):
    schema = {"type": "object", "properties": {}}
    tools = [{"name": "Get-Map", "title": "Map", "description": "A map", "inputSchema": schema, "annotations": {}}]
    row = source_changes.save_server(McpServer(name="my-weather", command="true", enabled=True))
    servers.record_status("my-weather", row.revision, "ready", listing=ToolListing(tools, []))
    policy.save_policy(scope="agent", subject="main", profile="full", also_allow=["group:plugins"])
    answer = methods.build_effective_answer(await db.read(find_effective_tools, user, make_session(user)))
    (group,) = [group for group in answer["groups"] if group["source"] == "mcp"]
    (tool,) = group["tools"]
    assert (group["id"], group["label"], tool["source"]) == ("mcp", "MCP", "mcp")
    assert (tool["id"], tool["mcpServer"], tool["mcpToolName"]) == ("my_weather__get_map", "my-weather", "Get-Map")
    assert (tool["group"], "pluginId" in tool) == ("my-weather", False)


async def test_tool_catalog_can_exclude_plugins(echo):
    def tools(answer):
        return {tool["id"] for group in answer["groups"] for tool in group["tools"]}

    whole = await methods.catalog(None, methods.CatalogParams.model_validate({}))
    own = await methods.catalog(None, methods.CatalogParams.model_validate({"includePlugins": False}))
    assert tools(whole) - tools(own) == {"echo_word"}
    assert "read" in tools(own)
    (brought,) = [group for group in whole["groups"] if group["source"] == "plugin"]
    assert (brought["id"], brought["pluginId"]) == ("echo", "echo")


async def test_reported_profile_defaults_to_effective_one(user, make_session, policy):
    policy.delete_policy(scope="global")
    policy.delete_policy(scope="agent", subject="main")
    assert protocol_tools._find_profile(await db.read(find_effective_tools, user, make_session(user))) == "minimal"
