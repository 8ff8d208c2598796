"""The whole workflow with two users' browsers on a running installation: request in the chat, decide in the queue, see it run."""

import datetime as dt
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from clawsite.accounts.models import User
from clawsite.infra import clock
from clawsite.infra.models import AuditEntry
from tests.harness.policies import restore_policy
from tests.harness.stack import Stack
from tests.web.chat_page import TIMEOUT_MS, send
from tools_app.models import Approval, Command, ExecRule, Grant
from tools_app.policy_store import policies

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database", "the_demo_agent_has_exec", "no_rules_of_others")]


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    expect.set_options(timeout=TIMEOUT_MS)
    yield
    expect.set_options(timeout=None)


@pytest.fixture
def the_demo_agent_has_exec(database: None) -> Iterator[None]:
    with restore_policy():
        policies.save_policy(scope="agent", subject="demo", profile="coding")
        yield


@pytest.fixture
def no_rules_of_others(database: None) -> Iterator[None]:
    """A running installation keeps its rows, so each test starts by deleting rules and grants."""
    ExecRule.objects.all().delete()
    Grant.objects.update(revoked_at=clock.now())
    yield
    ExecRule.objects.all().delete()


@pytest.fixture
def at_desk(browser: Browser, live: Stack) -> Iterator[Callable[[User, str], Page]]:
    """Open a page as a user in a separate browser."""
    opened = []

    def sit(user: User, address: str) -> Page:
        context = browser.new_context()
        context.set_default_timeout(TIMEOUT_MS)
        opened.append(context)
        page = context.new_page()
        live.sign_in(page, user)
        page.goto(live.url + address)
        return page

    yield sit
    for context in opened:
        context.close()


@pytest.fixture
def ada(make_user: Callable[..., User]) -> User:
    return make_user(name=f"ada-{uuid.uuid4().hex[:6]}")


@pytest.fixture
def ben(make_user: Callable[..., User]) -> User:
    return make_user("Approver", name=f"ben-{uuid.uuid4().hex[:6]}")


@pytest.fixture
def in_chat(at_desk: Callable[[User, str], Page], ada: User) -> Page:
    page = at_desk(ada, f"/#agent:demo:{uuid.uuid4().hex[:8]}")
    expect(page.locator("#connection")).to_have_text("Connected")
    return page


def let_demo_ask(**more: object) -> None:
    ExecRule.objects.create(scope="agent", subject="demo", security="allowlist", ask="on-miss", **more)


def question_of(user: User) -> Approval:
    return Approval.objects.get(requester=user, status="pending")


def test_denied_command_runs_once_requested_and_approved(
    at_desk: Callable[[User, str], Page], in_chat: Page, ben: User, make_user: Callable[..., User]
) -> None:
    send(in_chat, "run ls -la")
    expect(in_chat.locator(".tool .why")).to_contain_text("An operator can let the agent request them")
    olga = at_desk(make_user("Operator", name=f"olga-{uuid.uuid4().hex[:6]}"), "/approvals/?let=demo")
    olga.get_by_role("button", name="Let “demo” request commands").click()
    expect(olga.get_by_text("Agent demo can now request commands.")).to_be_visible()

    queue = at_desk(ben, "/approvals/")
    expect(queue.locator("#queue-state")).to_contain_text("live")
    send(in_chat, "run ls -la")
    waiting = in_chat.locator(".tool").last
    expect(waiting.locator(".approval")).to_contain_text("Waiting for approval")
    expect(in_chat.locator("#sessions [data-mark=waiting] .mark")).to_contain_text("Needs approval")
    in_chat.reload()
    expect(waiting.locator(".approval")).to_contain_text("Waiting for approval")
    card = queue.locator(".question[data-status=pending]").last
    expect(card.locator(".part.program")).to_have_text("ls")
    expect(card).to_contain_text("ls -la")
    card.locator(".command").scroll_into_view_if_needed()
    card.get_by_role("button", name="Approve once").click()
    expect(waiting.locator(".approval")).to_contain_text(f"Approved once by {ben.username}")
    expect(waiting).to_have_attribute("data-status", "done")
    waiting.locator("summary").first.click()
    expect(waiting.locator(".result pre")).to_contain_text("total")
    in_chat.reload()
    expect(waiting.locator(".approval")).to_contain_text(f"Approved once by {ben.username}")


def test_denial_reason_reaches_the_model(at_desk: Callable[[User, str], Page], in_chat: Page, ada: User, ben: User) -> None:
    let_demo_ask()
    send(in_chat, "run ls -la")
    expect(in_chat.locator(".tool .approval")).to_contain_text("Waiting for approval")
    page = at_desk(ben, f"/approvals/{question_of(ada).pk}/")
    page.locator("summary", has_text="Deny…").click()
    page.get_by_label("Reason (the agent will see this)").fill("Not on a Friday")
    page.get_by_role("button", name="Deny", exact=True).click()
    expect(in_chat.locator(".tool .approval")).to_contain_text(re.compile(rf"Denied by {ben.username} .*Not on a Friday"))
    expect(in_chat.locator(".message.assistant .answer").last).to_contain_text("Not on a Friday")


def test_fifteen_minute_grant_allows_repeat_and_is_shown(
    at_desk: Callable[[User, str], Page], in_chat: Page, ada: User, ben: User
) -> None:
    let_demo_ask()
    send(in_chat, "run ls -la")
    first = in_chat.locator(".tool").nth(0)
    expect(first.locator(".approval")).to_contain_text("Waiting for approval")
    page = at_desk(ben, f"/approvals/{question_of(ada).pk}/")
    page.locator("summary", has_text="Approve for…").click()
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".ended")).to_contain_text("approved it for 15 minutes, in this chat")
    expect(first.locator(".approval")).to_contain_text(f"Approved by {ben.username} for 15 minutes, in this chat")
    expect(first.locator(".verdict")).to_have_text(f"approved by {ben.username} for 15 minutes")
    send(in_chat, "run ls -la")
    again = in_chat.locator(".tool").nth(1)
    by_grant = re.compile(rf"allowed by a grant from {ben.username}, until .*\d\d:\d\d")
    expect(again.locator(".verdict")).to_have_text(by_grant)
    in_chat.reload()
    expect(again.locator(".verdict")).to_have_text(by_grant)

    begun = Command.objects.filter(session__owner=ada).order_by("started_at").last()
    assert begun
    started = AuditEntry.objects.get(action="command.started", subject_id=str(begun.pk))
    assert started.details["grants"] == [Grant.objects.get(owner=ben).pk]
    run = at_desk(ada, f"/runs/{begun.run_id}/")
    expect(run.locator("#calls summary")).to_contain_text(f"from {ben.username}, in this chat, until")
    expect(run.locator("#story .verdict")).to_have_text(by_grant)
    grants = at_desk(ben, "/approvals/grants/")
    expect(grants.locator(".grants > li").first).to_contain_text("15 minutes")


def test_approval_in_chat_updates_other_approvers_queue(
    at_desk: Callable[[User, str], Page], ben: User, make_user: Callable[..., User]
) -> None:
    let_demo_ask()
    both = make_user("User", "Approver", name=f"both-{uuid.uuid4().hex[:6]}")
    queue = at_desk(ben, "/approvals/")
    chat = at_desk(both, f"/#agent:demo:{uuid.uuid4().hex[:8]}")
    expect(chat.locator("#connection")).to_have_text("Connected")
    send(chat, "run ls -la")
    expect(queue.locator("article.question", has_text=both.username)).to_be_visible()
    chat.locator(".tool .approval").get_by_role("button", name="Approve once").click()
    expect(chat.locator(".tool")).to_have_attribute("data-status", "done")
    expect(queue.locator("article.question", has_text=both.username)).to_contain_text(f"{both.username} approved it once")


def test_unresolved_request_expires_live_on_every_page(
    at_desk: Callable[[User, str], Page], in_chat: Page, ada: User, ben: User
) -> None:
    let_demo_ask()
    send(in_chat, "run ls -la")
    expect(in_chat.locator(".tool .approval")).to_contain_text("Waiting for approval")
    question = question_of(ada)
    page = at_desk(ben, f"/approvals/{question.pk}/")
    Approval.objects.filter(pk=question.pk).update(expires_at=clock.now() + dt.timedelta(seconds=1))
    expect(in_chat.locator(".tool .approval")).to_contain_text("Expired without a decision")
    expect(page.locator(".question")).to_contain_text("Expired without a decision")
    expect(in_chat.locator(".message.assistant .answer").last).to_contain_text("The approval request expired")


def test_pending_request_survives_crash_of_every_process(
    at_desk: Callable[[User, str], Page], in_chat: Page, live: Stack, ada: User, ben: User
) -> None:
    let_demo_ask()
    queue = at_desk(ben, "/approvals/")
    expect(queue.locator("#queue-state")).to_contain_text("live")
    send(in_chat, "run ls -la; until [ -e go ]; do sleep 0.1; done; echo it-went")
    tool = in_chat.locator(".tool")
    expect(tool.locator(".approval")).to_contain_text("Waiting for approval")
    asked = question_of(ada)
    card = queue.locator(f"#q-{asked.pk}")
    expect(card).to_be_visible()

    servers = [*live.webs, *live.workers]
    for server in servers:
        server.kill()
    expect(in_chat.locator("#connection")).not_to_have_text("Connected")
    expect(queue.locator("#queue-state")).not_to_contain_text("· live")
    for server in servers:
        server.spawn()
    for server in servers:
        server.wait_ready()
    expect(in_chat.locator("#connection")).to_have_text("Connected")
    expect(queue.locator("#queue-state")).to_contain_text("live")

    found = question_of(ada)
    assert (found.pk, found.plan_hash, found.expires_at, found.shown) == (
        asked.pk,
        asked.plan_hash,
        asked.expires_at,
        asked.shown,
    ), "the same question, until the same time"
    expect(tool.locator(".approval")).to_contain_text("Waiting for approval")
    card.locator(".command").scroll_into_view_if_needed()
    card.get_by_role("button", name="Approve once").click()
    expect(card).to_contain_text(f"{ben.username} approved it once")
    expect(tool.locator(".approval")).to_contain_text(f"Approved once by {ben.username}")
    expect(tool).to_have_attribute("data-status", "running")
    expect(tool.locator(".result pre")).to_contain_text("total")
    (Path(asked.plan["cwd"]) / "go").touch()
    expect(tool).to_have_attribute("data-status", "done")
    expect(in_chat.locator(".message.assistant .answer").last).to_contain_text("it-went")
    assert [command.status for command in Command.objects.filter(approval=asked)] == ["exited"], "it ran once"


def test_skipped_command_lets_the_agent_continue(in_chat: Page) -> None:
    let_demo_ask()
    send(in_chat, "run ls -la")
    in_chat.get_by_role("button", name="Skip this command").click()
    expect(in_chat.locator(".tool .approval")).to_contain_text("skipped it")
    expect(in_chat.locator("#stop")).to_be_hidden()
