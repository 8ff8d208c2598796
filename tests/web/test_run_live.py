"""The run page with a running installation: it follows an active run and stops it."""

import json
import re
from collections.abc import Callable

from playwright.sync_api import Browser, Page, expect

from clawsite.accounts.models import User
from sessions_app.models import Run
from sessions_app.runs import lifecycle
from sessions_app.sessions.service import ensure_session
from tests.harness.stack import Stack
from tests.web.chat_page import OpenChat, on_phone, send

PATIENCE = 40_000  # ms: a loaded machine starts a run late, and speed is not tested here


def opened(page: Page, live: Stack, user: User, prompt: str) -> tuple[Page, Run]:
    session = ensure_session(user, "agent:main:recorded")
    accepted = lifecycle.accept_run(user=user, session=session, run_id="recorded", prompt=prompt)
    live.sign_in(page, user)
    page.goto(f"{live.url}/runs/{accepted.pk}/")
    return page, Run.objects.get(pk=accepted.pk)


def test_run_page_follows_run_to_its_end(page: Page, live: Stack, user: User) -> None:
    page, run = opened(page, live, user, "[[tokens=30 delay_ms=100]] count the sheep")
    expect(page.locator("#live")).to_be_visible(timeout=PATIENCE)
    expect(page.locator("#status")).to_have_text("completed", timeout=PATIENCE)
    expect(page.locator("#live")).to_be_hidden()
    run.refresh_from_db()
    expect(page.locator("#place")).to_have_text(f"event {run.seq} of {run.seq}", timeout=PATIENCE)
    expect(page.locator("#story .said").last.locator(":scope > .text")).not_to_be_empty()


@on_phone
def test_run_can_be_stopped_from_its_page(page: Page, live: Stack, user: User) -> None:
    page, _run = opened(page, live, user, "[[tokens=400 delay_ms=100]] count many sheep")
    expect(page.locator("#now-state")).to_have_text("running", timeout=PATIENCE)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#status")).to_have_text("stopped", timeout=PATIENCE)
    expect(page.locator("#story .note").last).to_have_text(re.compile("Stopped"))


def test_failed_run_is_played_back_and_exported(page: Page, live: Stack, user: User) -> None:
    broken = '[[tool=glob args={"pattern":"*"}]] [[tool=read args={"path":"not-there.txt"}]] look around'
    page, run = opened(page, live, user, broken)
    expect(page.locator("#status")).to_have_text("completed", timeout=PATIENCE)
    run.refresh_from_db()
    expect(page.locator("#place")).to_have_text(f"event {run.seq} of {run.seq}", timeout=PATIENCE)
    story, scrub = page.locator("#story"), page.locator("#scrub")
    page.get_by_role("button", name="Go to start").click()
    expect(page.locator("#place")).to_have_text(f"event 1 of {run.seq}")
    expect(page.locator("#now-state")).to_have_text("queued")
    page.get_by_role("button", name="First error").click()
    expect(story.locator(".call .name")).to_have_text(["glob", "read"])
    expect(story.locator(".call .state")).to_have_text(["completed", "failed"])
    expect(story.locator(".call .verdict")).to_have_text(["allowed by profile"] * 2)
    expect(story.locator(".call .output").last).to_contain_text("not-there.txt")
    expect(story).not_to_contain_text("done after tools")
    scrub.evaluate("field => { field.value = field.max; field.dispatchEvent(new Event('input', { bubbles: true })) }")
    expect(page.locator("#place")).to_have_text(f"event {run.seq} of {run.seq}")
    expect(story).to_contain_text("done after tools")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export as JSON").click()
    assert download.value.suggested_filename == f"run-{run.pk}.json"
    exported = json.loads(download.value.path().read_text())
    assert exported["run"]["runId"] == "recorded"
    assert [event["seq"] for event in exported["events"]] == list(range(1, run.seq + 1))


def test_dashboard_counts_connected_clients_and_workers(
    browser: Browser, live: Stack, make_user: Callable[..., User], open_chat: OpenChat
) -> None:
    first = open_chat("agent:main:counted")
    open_chat("agent:main:counted", first.context.new_page())
    operator = make_user("Operator")
    operator.is_staff = True
    operator.save()
    desk = browser.new_context().new_page()
    live.sign_in(desk, operator)
    desk.goto(f"{live.url}/admin/")
    expect(desk.locator("[data-tile=sockets] dd").first).to_have_text("2", timeout=PATIENCE)
    for worker in live.workers:
        row = desk.locator("[data-rows=workers] tr").filter(has_text=f"· {worker.pid}")
        expect(row.locator("td").nth(1)).to_have_text("idle", timeout=PATIENCE)
    send(first, '[[text="one two three four five" hang_after=4]]')
    expect(desk.locator("[data-tile=running] dd").first).to_have_text("1", timeout=PATIENCE)
    expect(desk.locator("[data-rows=workers] td").filter(has_text="busy")).to_have_count(1, timeout=PATIENCE)
    first.locator("#stop").click()
    expect(desk.locator("[data-tile=running] dd").first).to_have_text("0", timeout=PATIENCE)
    desk.context.close()
