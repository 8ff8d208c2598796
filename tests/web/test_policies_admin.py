"""The policy form in the admin, in a real browser: fields of the scope, suggestions, and messages while typing."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from clawsite.accounts.models import User
from tests.harness.policies import restore_policy
from tests.web.chat_page import sign_in
from tools_app.models import ToolPolicy
from tools_app.policy_store import policies

pytestmark = pytest.mark.usefixtures("database", "kept_policy")


@pytest.fixture
def kept_policy(database: None) -> Iterator[None]:
    with restore_policy():
        yield


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    expect.set_options(timeout=20_000)  # for a loaded machine; speed is not tested here
    yield
    expect.set_options(timeout=None)


@pytest.fixture
def form(page: Page, site: str, make_user: Callable[..., User]) -> Callable[[str], Page]:
    someone = make_user("Operator", name="olga")
    someone.is_staff = True
    someone.save()
    sign_in(page, site, someone)

    def opened(path: str) -> Page:
        page.context.set_default_timeout(30_000)  # the first page of a process loads all of them
        page.goto(f"{site}/admin/tools_app/toolpolicy/{path}")
        return page

    return opened


def test_form_shows_fields_of_selected_scope(form: Callable[[str], Page]) -> None:
    page = form("add/")
    fields = {name: page.locator(f"#id_{name}") for name in ("subject", "provider", "channel", "group", "sender", "also_allow")}

    def shown() -> set[str]:
        return {name for name, field in fields.items() if field.is_visible()}

    for scope, has in (
        ("global", {"provider", "also_allow"}),
        ("agent", {"subject", "provider", "also_allow"}),
        ("group", {"channel", "group", "sender"}),
        ("sandbox", {"subject"}),
        ("subagent", set()),
    ):
        page.locator("#id_scope").select_option(scope)
        assert shown() == has, scope
    page.locator("#id_scope").select_option("agent")
    fields["subject"].fill("scout")
    page.locator("#id_scope").select_option("subagent")
    assert shown() == {"subject"}
    expect(page.locator("#id_subject_findings")).to_contain_text("Scope subagent does not use subject. Leave it blank.")


def test_errors_and_suggestions_appear_while_typing(form: Callable[[str], Page]) -> None:
    page = form("add/")
    page.locator("#id_scope").select_option("agent")
    page.locator("#id_subject").fill("scout")
    deny = page.locator("#id_deny")
    deny.fill("wriet")
    expect(page.locator("#id_deny_findings .error")).to_contain_text("“wriet” is not a tool")
    expect(deny).to_have_attribute("aria-invalid", "true")
    deny.fill("")
    deny.press_sequentially("group:ru")
    expect(page.locator(".entry-list:visible li")).to_contain_text("exec, process")
    deny.press("Enter")
    expect(deny).to_have_value("group:runtime")
    expect(page.locator("#id_deny_findings")).to_have_text("")
    page.locator("#id_allow").fill("exec read")
    expect(page.locator("#id_allow_findings .warning").first).to_contain_text("has no effect")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text(re.compile("“exec” has no effect"))).to_be_visible()
    assert policies.current_rules().row("agent", "scout").deny == ("group:runtime",)


def test_concurrent_change_is_reported_and_input_kept(form: Callable[[str], Page]) -> None:
    page = form(f"{ToolPolicy.objects.get(scope='agent', subject='main').pk}/change/")
    page.locator("#id_deny").fill("write")
    policies.save_policy(scope="agent", subject="main", profile="coding", deny=["grep"])
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("The policy was changed while you were editing")).to_be_visible()
    expect(page.locator("#id_deny")).to_have_value("write")
    assert policies.current_rules().row("agent", "main").deny == ("grep",)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page).to_have_url(re.compile("/toolpolicy/$"))
    assert policies.current_rules().row("agent", "main").deny == ("write",)
