"""The policy pages without a browser: who can open them, their results, and what saving does and doesn't overwrite."""

import re
from dataclasses import replace
from html import unescape
from urllib.parse import parse_qsl, urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.models import Agent
from clawsite.infra.reasons import Reason
from clawsite.web.policies.query import ExplainQuery
from sessions_app.models import ToolCall
from sessions_app.origin import Sender
from tests.harness.page_source import compact_html
from tests.harness.policies import create_tool_call, restore_policy
from tools_app.policy.evaluation import NOT_OFFERED, evaluate
from tools_app.policy.query import PolicyQuery
from tools_app.policy_store import policies
from tools_app.policy_store.policy_tests import save_test
from tools_app.policy_store.vocabulary import with_all_tools

pytestmark = pytest.mark.usefixtures("database", "surroundings")

PAGES = ("/policies/", "/policies/history/", "/policies/history/1/", "/policies/tests/")
HTMX = {"HX-Request": "true"}
NASTY = '"><img src=x onerror=alert(1)>'


@pytest.fixture
def surroundings(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    with restore_policy():
        yield


def signed_in(account) -> Client:
    client = Client()
    client.force_login(account)
    return client


@pytest.fixture
def operator(make_user) -> Client:
    return signed_in(make_user("Operator", name="olga"))


def text_of(response) -> str:
    return compact_html(response.content.decode())


def ask(client: Client, *, htmx: bool = False, **params) -> str:
    answer = client.get(f"/policies/?{urlencode(params)}", headers=HTMX if htmx else {}, secure=True)
    assert answer.status_code == 200
    return text_of(answer)


def cell(page: str, tool: str, layer: str) -> str:
    row = re.search(rf'<tr[^>]*data-tool="{tool}".*?</tr>', page, re.DOTALL)
    assert row, f"no row of {tool}"
    found = re.search(rf'<td class="([a-z ]+)" data-layer="{layer}"', row[0])
    assert found
    return found[1]


# Access


@pytest.mark.parametrize("page", PAGES)
def test_policy_pages_require_operator_or_auditor(make_user, page):
    assert signed_in(make_user("Operator")).get(page, secure=True).status_code == 200
    assert signed_in(make_user("Auditor")).get(page, secure=True).status_code == 200
    refused = signed_in(make_user("User", "Approver")).get(page, secure=True)
    assert refused.status_code == 403
    assert "You don’t have access to this page" in text_of(refused)
    unknown = Client().get(page, secure=True)
    assert (unknown.status_code, unknown["Location"]) == (302, f"/sign-in/?next={page}")


def test_auditor_cannot_change_policies(make_user):
    auditor = signed_in(make_user("Auditor"))
    test = save_test(name="t", expected="never", agent="main", tool="web_fetch")
    posts = ("save/", "delete/", "history/1/restore/", "tests/new/", f"tests/{test.pk}/", f"tests/{test.pk}/delete/")
    assert {auditor.post(f"/policies/{path}", {"seen": 1}, secure=True).status_code for path in posts} == {403}
    page = ask(auditor, scope="agent", for_agent="main", seen="1", deny="write")
    assert "Only operators can save" in page
    assert "save-rule" not in page


def test_signed_out_htmx_request_reloads_page(database):
    assert Client().get("/policies/", headers=HTMX, secure=True)["HX-Refresh"] == "true"


# Query and result


def test_table_matches_policy_evaluation(operator):
    page = ask(operator, agent="main")
    assert cell(page, "read", "profile") == "allow"
    assert cell(page, "web_fetch", "profile") == "deny deciding"
    assert cell(page, "read", "group") == "none"
    verdict = evaluate(with_all_tools(PolicyQuery("main", is_owner=True)), policies.current_rules())
    for tool, steps in verdict.trace.items():
        assert [cell(page, tool, step.layer).split()[0] for step in steps] == [step.effect for step in steps]
    assert f"{len(verdict.kept)} of {len(verdict.trace)} tools are allowed" in page


def test_every_query_field_affects_evaluation(operator):
    policies.save_policy(scope="agent", subject="main", provider="openai/gpt-5", deny=["read"])
    policies.save_policy(scope="group", channel="telegram", group="-100", sender="anna", deny=["glob"])
    page = ask(
        operator, agent="main", model="OpenAI/gpt-5", channel="telegram", group="-100", sender="@Anna", sandboxed=1, subagent=1
    )
    assert cell(page, "read", "agent_provider") == "deny deciding"
    assert cell(page, "glob", "group") == "deny deciding"
    assert cell(page, "edit", "sandbox") == "allow"
    assert cell(page, "session_status", "subagent") == "deny deciding"
    assert cell(ask(operator, who="other"), "whatsapp_login", "owner") == "deny deciding"


def test_agents_default_model_is_used_without_model(operator):
    Agent.objects.filter(slug="main").update(model="openai/gpt-5")
    policies.save_policy(scope="global", provider="openai", deny=["read"])
    page = ask(operator)
    assert cell(page, "read", "global_provider") == "deny deciding"
    assert "Evaluated with openai/gpt-5, the agent’s default model." in page
    # A rule can be added for it, and the query stays.
    assert 'href="/policies/?scope=agent&for_agent=main&for_model=openai%2Fgpt-5#draft"' in unescape(page)
    other = ask(operator, model="anthropic/claude-opus-4")
    assert cell(other, "read", "global_provider") == "none"
    assert "the agent’s default model." not in other


def test_cells_link_to_existing_or_new_rule(operator):
    page = unescape(ask(operator, agent="main", model="openai/gpt-5"))
    assert 'href="/policies/?model=openai%2Fgpt-5&scope=agent&for_agent=main#draft"' in page
    assert 'href="/policies/?model=openai%2Fgpt-5&scope=global&for_model=openai%2Fgpt-5#draft"' in page


def test_tool_list_filters_by_name_group_and_verdict(operator):
    def tools(**params) -> set[str]:
        return set(re.findall(r'<tr[^>]*data-tool="([^"]+)"', ask(operator, **params)))

    assert tools(tool="memory") == {"memory_get", "memory_search"}
    assert tools(of="runtime") == {"exec", "process"}
    assert not tools(show="kept") & tools(show="refused")
    assert tools(show="kept") | tools(show="refused") == tools()
    assert "No tools match" in ask(operator, tool="no such tool")


def verdict_cell(page: str, tool: str) -> str:
    row = re.search(rf'<tr[^>]*data-tool="{tool}".*?</tr>', page, re.DOTALL)
    assert row, f"no row of {tool}"
    told = re.search(r'<td class="verdict">(.*?)</td>', row[0], re.DOTALL)
    assert told
    return " ".join(unescape(re.sub("<[^>]+>", " ", told[1])).split())


def test_allowed_but_unavailable_tool_shows_reason(operator, settings):
    policies.save_policy(scope="agent", subject="main", profile="full")
    asked = {"model": "deepseek/deepseek-chat", "who": "other"}
    page = ask(operator, **asked)
    engine = "No search engine is configured: set CLAWSITE_SEARXNG_URL or BRAVE_API_KEY"
    assert verdict_cell(page, "web_search") == f"allowed, unavailable {engine}"
    assert verdict_cell(page, "image") == "allowed, unavailable Model `deepseek/deepseek-chat` does not accept images"
    assert verdict_cell(page, "browser") == "allowed, unavailable Not available in this version"
    assert verdict_cell(page, "memory_get") == "allowed, unavailable Notes are only available to the session's owner"
    assert verdict_cell(page, "read") == "allowed"
    missing = set(re.findall(r'<tr[^>]*data-tool="([^"]+)"', ask(operator, show="missing", **asked)))
    assert {"web_search", "image", "browser", "apply_patch"} <= missing
    assert "read" not in missing
    assert f"{len(missing)} of them are unavailable" in page
    settings.SEARXNG_URL = "http://127.0.0.1:8888"
    assert verdict_cell(ask(operator), "web_search") == "allowed"
    assert verdict_cell(ask(operator), "memory_get") == "allowed"


def test_draft_allowing_unavailable_tool_shows_reason(operator):
    page = ask(operator, scope="agent", for_agent="main", seen="1", profile="coding", also_allow="web_search")
    assert verdict_cell(page, "web_search").startswith("was denied → would be allowed but unavailable No search engine")
    refused = ask(operator, agent="scout")
    assert verdict_cell(refused, "web_search") == "denied Not in the `minimal` profile"


@pytest.mark.parametrize("name", ["agent", "model", "channel", "group", "sender", "tool", "of", "for_agent", "for_sender", "deny"])
def test_query_parameters_are_escaped(operator, name):
    policies.save_policy(scope="group", channel="telegram", group=NASTY, sender=NASTY, deny=["exec"])
    page = ask(operator, scope="group", for_channel="telegram", for_group="x", seen="1", **{name: NASTY + "\0" * 3 + "x" * 5000})
    assert "<img src=x" not in page


def test_query_count_does_not_grow_with_rules(operator):
    def queries(**params) -> int:
        with CaptureQueriesContext(connection) as counted:
            ask(operator, **params)
        return len(counted)

    drafted = {"scope": "agent", "for_agent": "main", "seen": "1", "deny": "write"}
    queries(**drafted)
    few = queries(), queries(**drafted), queries(htmx=True, **drafted)
    for number in range(20):
        policies.save_policy(scope="agent", subject=f"robot-{number}", deny=["exec"])
        save_test(name=f"t{number}", expected="never", agent=f"robot-{number}", tool="exec")
    assert (queries(), queries(**drafted | {"seen": "41"}), queries(htmx=True, **drafted | {"seen": "41"})) == few
    assert max(few) <= 21


# Drafts


def test_scope_without_draft_loads_current_rule(operator):
    policies.save_policy(scope="agent", subject="main", profile="coding", deny=["write"])
    page = ask(operator, agent="main", scope="agent")
    assert 'name="for_agent" value="main"' in page
    assert re.search(r'<textarea[^>]*name="deny"[^>]*>write</textarea>', page)
    assert "This is the current rule" in page


def test_draft_changes_verdicts_without_saving(operator):
    before = policies.current_rules()
    page = ask(
        operator, scope="agent", for_agent="main", seen=before.version, profile="coding", also_allow="web_fetch", deny="read"
    )
    assert "was denied → would be allowed" in page
    assert "was allowed → would be denied" in page
    assert cell(page, "read", "agent") == "deny deciding changed"
    assert "1 more, 1 fewer than now" in page
    assert policies.current_rules() == before


def test_errors_and_warnings_are_shown_at_field(operator):
    part = ask(operator, htmx=True, scope="agent", for_agent="main", seen=1, deny="wriet", profile="coding")
    assert re.search(r'innerHTML:#said-deny"><p class="error">Entry “wriet” is not a tool', part)
    assert "The draft has an error" in part
    part = ask(operator, htmx=True, scope="agent", for_agent="main", seen=1, deny="exec", allow="exec read", profile="coding")
    assert re.search(r'innerHTML:#said-allow"><p class="warning">“exec” has no effect', part)


def test_saved_draft_creates_version_with_author(operator):
    answer = operator.post("/policies/save/", {"scope": "agent", "for_agent": "main", "seen": 1, "deny": "write"}, secure=True)
    assert (answer.status_code, answer["Location"]) == (302, "/policies/")
    assert policies.current_rules().row("agent", "main").deny == ("write",)
    assert "olga" in text_of(operator.get("/policies/history/", secure=True))


def test_displayed_draft_is_saved_without_javascript(operator):
    page = ask(operator, agent="scout", scope="agent", seen=1, deny="write, edit")
    drafted = unescape(re.search(r'name="draft" value="([^"]+)"', page)[1])
    assert dict(parse_qsl(drafted))["deny"] == "write\nedit"
    answer = operator.post("/policies/save/", {"draft": drafted}, secure=True)
    assert answer["Location"] == "/policies/?agent=scout"
    assert policies.current_rules().row("agent", "scout").deny == ("write", "edit")


def test_concurrent_change_is_shown_and_not_overwritten(operator):
    draft = {"scope": "agent", "for_agent": "main", "seen": 1, "deny": "write"}
    policies.save_policy(scope="agent", subject="main", profile="minimal", deny=["grep"])
    answer = operator.post("/policies/save/", draft, secure=True)
    assert answer.status_code == 409
    assert policies.current_rules().row("agent", "main").deny == ("grep",)
    page = text_of(answer)
    assert "it is now at version 2, and you started from version 1" in page
    assert re.search(r'class="removed">.*?<code>coding</code>', page)
    assert re.search(r'<textarea[^>]*name="deny"[^>]*>write</textarea>', page), "the draft is kept"
    assert operator.post("/policies/save/", {**draft, "over": 2}, secure=True).status_code == 302
    assert policies.current_rules().row("agent", "main").deny == ("write",)


@pytest.mark.parametrize(("agent", "told"), [("main", False), ("mian", True)])
def test_missing_agent_is_reported(operator, agent, told):
    page = operator.get("/policies/", {"agent": agent}, secure=True)
    assert ("Agent “mian” does not exist" in unescape(page.content.decode())) is told


def test_draft_that_breaks_policy_test_is_rejected(operator):
    save_test(name="scout never writes", expected="never", agent="scout", tool="write")
    draft = {"scope": "agent", "for_agent": "scout", "seen": 2, "profile": "full"}
    assert "Policy test “scout never writes” would fail" in unescape(ask(operator, **draft))
    assert operator.post("/policies/save/", draft, secure=True).status_code == 422
    assert policies.current_rules().version == 2


def test_rule_is_deleted_by_scope_and_version(operator):
    drafted = urlencode({"scope": "agent", "for_agent": "main", "seen": 1, "loaded": "agent:main"})
    assert operator.post("/policies/delete/", {"draft": drafted}, secure=True).status_code == 302
    assert policies.current_rules().row("agent", "main").is_empty
    assert operator.post("/policies/delete/", {"draft": drafted}, secure=True).status_code == 409


# Replay and single calls


def test_draft_is_replayed_against_recorded_calls(operator, user, make_session):
    create_tool_call(user, make_session(user), name="write", status="finished")
    call = create_tool_call(user, make_session(user), name="web_fetch")
    page = ask(operator, scope="agent", for_agent="main", seen=1, profile="coding", deny="write", also_allow="web_fetch", replay=7)
    assert "Would newly deny 1 and newly allow 1 of 2 tool calls" in page
    assert f'href="/policies/calls/{call.pk}/"' in page


def test_operator_sees_call_explanation_without_arguments(operator, user, make_session):
    policies.save_policy(scope="agent", subject="main", profile="coding", deny=["write"])
    call = create_tool_call(user, make_session(user))
    policies.save_policy(scope="agent", subject="main", profile="coding", deny=["grep"])
    page = text_of(operator.get(f"/policies/calls/{call.pk}/", secure=True))
    assert "Agent: deny entry `write`" in page
    assert "policy version 2" in page
    assert "Today this would be allowed." in page
    assert re.search(r'class="added">.*?<code>grep</code>', page)
    assert "the-secret-path" not in page
    assert "the secret prompt" not in page


def test_auditor_and_session_owner_see_call_arguments(make_user, make_session):
    olga = make_user("Operator", "User")
    call = create_tool_call(olga, make_session(olga), name="web_fetch")
    for reader in (olga, make_user("Auditor")):
        assert "the-secret-path" in text_of(signed_in(reader).get(f"/policies/calls/{call.pk}/", secure=True))


def test_call_is_not_found_without_permission(make_user, user, make_session):
    call = create_tool_call(user, make_session(user), name="web_fetch")
    addresses = (f"/policies/calls/{call.pk}/", f"/policies/calls/?run={call.run.run_id}&call=c1")
    for reader in (user, make_user("User", "Approver")):
        assert {signed_in(reader).get(address, secure=True).status_code for address in addresses} == {404}
    assert {Client().get(address, secure=True).status_code for address in addresses} == {302}


@pytest.mark.parametrize(
    "names",
    [
        {"id": "42", "e164": "+4915", "username": "@Anna", "name": "Anna Müller"},
        {"username": "anna", "name": "Anna & Co #1"},
        {"name": "Anna"},
        {},
    ],
)
def test_links_from_recorded_call_keep_all_sender_names(operator, user, make_session, names):
    policies.save_policy(scope="group", channel="telegram", group="-100", sender=names.get("name", "anna"), deny=["read"])
    call = create_tool_call(user, make_session(user), name="read", channel="telegram", group="-100", sender=Sender(**names))
    page = unescape(text_of(operator.get(f"/policies/calls/{call.pk}/", secure=True)))
    addresses = [each for each in re.findall(r'href="/policies/\?([^"#]*)"', page) if "scope=" not in each]
    assert addresses
    for address in addresses:
        again = ExplainQuery.read(dict(parse_qsl(address))).query()
        asked = PolicyQuery.from_json(call.query)
        assert replace(again, tools=asked.tools, plugins=asked.plugins) == asked
        told = text_of(operator.get(f"/policies/?{address}", secure=True))
        assert cell(told, "read", "group").split()[0] == ("deny" if names else "none")


def test_call_is_found_by_run_and_call_id(operator, user, make_session):
    call = create_tool_call(user, make_session(user), name="web_fetch")
    found = operator.get(f"/policies/calls/?run={call.run.run_id}&call=c1", secure=True)
    assert found["Location"] == f"/policies/calls/{call.pk}/"
    assert operator.get("/policies/calls/?run=other&call=c1", secure=True).status_code == 404


def test_unavailable_call_without_query_is_shown_as_such(operator, user, make_session):
    call = create_tool_call(user, make_session(user), name="web_fetch")
    ToolCall.objects.filter(pk=call.pk).update(refused_by=NOT_OFFERED, query={}, verdict={})
    page = text_of(operator.get(f"/policies/calls/{call.pk}/", secure=True))
    assert "Unavailable in this run" in page
    assert "Not recorded." in page


def test_call_of_unavailable_tool_shows_past_and_current_reason(operator, user, make_session, settings):
    policies.save_policy(scope="agent", subject="main", profile="full")
    call = create_tool_call(user, make_session(user), name="web_search")
    reason = Reason("tool.no_search_engine")
    ToolCall.objects.filter(pk=call.pk).update(refused_by=NOT_OFFERED, verdict={**call.verdict, "not_offered": reason.to_json()})
    page = text_of(operator.get(f"/policies/calls/{call.pk}/", secure=True))
    assert f"Unavailable in this run: {reason}" in page
    assert "Today this would be allowed, but unavailable." in page
    settings.BRAVE_API_KEY = "x"
    assert "Today this would be allowed." in text_of(operator.get(f"/policies/calls/{call.pk}/", secure=True))
