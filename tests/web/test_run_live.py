"""The page of a run against a running installation: it follows while the run goes on, and stops it."""

import re

from playwright.sync_api import Page, expect

from clawsite.accounts.models import User
from sessions_app import runs
from sessions_app.models import Run
from sessions_app.sessions import ensure_session
from tests.stack import Stack

PATIENCE = 40_000  # ms: a loaded machine starts a run late, and that is not what is tested here


def opened(page: Page, live: Stack, user: User, prompt: str) -> tuple[Page, Run]:
    session = ensure_session(user, "agent:main:recorded")
    accepted = runs.accept_run(user=user, session=session, run_id="recorded", prompt=prompt)
    live.sign_in(page, user)
    page.goto(f"{live.url}/runs/{accepted.pk}/")
    return page, Run.objects.get(pk=accepted.pk)


def test_a_run_is_followed_to_its_end(page: Page, live: Stack, user: User) -> None:
    page, run = opened(page, live, user, "[[tokens=30 delay_ms=100]] count the sheep")
    expect(page.locator("#live")).to_be_visible(timeout=PATIENCE)
    expect(page.locator("#status")).to_have_text("done", timeout=PATIENCE)
    expect(page.locator("#live")).to_be_hidden()
    run.refresh_from_db()
    expect(page.locator("#place")).to_have_text(f"event {run.seq} of {run.seq}", timeout=PATIENCE)
    expect(page.locator("#story .said").last.locator(":scope > .text")).not_to_be_empty()


def test_a_run_is_stopped_from_its_page(page: Page, live: Stack, user: User) -> None:
    page, _run = opened(page, live, user, "[[tokens=400 delay_ms=100]] count many sheep")
    expect(page.locator("#now-state")).to_have_text("running", timeout=PATIENCE)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#status")).to_have_text("stopped", timeout=PATIENCE)
    expect(page.locator("#story .note").last).to_have_text(re.compile("Stopped"))
