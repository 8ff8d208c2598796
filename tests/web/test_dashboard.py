"""The admin dashboard: current activity, usage, who can see it, and its number of queries."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from playwright.sync_api import Page, expect

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from sessions_app.models import Freeze, Run, Session, Worker
from sessions_app.runs import freezes, lifecycle
from tests.harness.page_source import compact_html
from tests.harness.recorded_run import create_recorded_run
from tests.web.chat_page import sign_in

pytestmark = pytest.mark.usefixtures("database")

MOST_QUERIES = 25  # of the whole page, including sign-in and menu


@pytest.fixture
def operator(make_user: Callable[..., User]) -> User:
    return staff(make_user("Operator", name="olga"))


def staff(user: User) -> User:
    user.is_staff = True
    user.save()
    return user


@pytest.fixture
def work(user: User, make_session: Callable[..., Session]) -> list[Run]:
    """Runs in every state: completed, failed, running on an unresponsive worker, queued."""
    done = create_recorded_run(user, make_session(user), "done")
    failed = create_recorded_run(user, make_session(user), "failed", status="error")
    going = create_recorded_run(user, make_session(user), "going", ended=False)
    Run.objects.filter(pk=going.pk).update(worker="w2", lease_until=sql.db_now() + 12)
    lifecycle.accept_run(user=user, session=make_session(user), run_id="queued", prompt="a private question")
    for name, age in (("w1", 1), ("w2", 500)):
        Worker.objects.create(id=name, pid=1, started_at=clock.now(), heartbeat_at=sql.db_now() - age, version="1.0")
    return [done, failed, going]


def opened(user: User, address: str = "/admin/") -> Any:
    client = Client()
    client.force_login(user)
    return client.get(address)


def test_dashboard_shows_activity_and_usage(operator: User, work: list[Run]) -> None:
    now = json.loads(opened(operator, "/admin/dashboard/live/").content)
    values = {tile["key"]: tile["value"] for tile in now["tiles"]}
    assert values.pop("sockets") in ("–", "0")  # without a gateway left in this process by an earlier test
    assert values == {"health": "ready", "running": "1", "queued": "1", "parked": "0", "workers": "1"}
    lanes = {row[0]["text"]: [cell["text"] for cell in row[1:]] for row in now["lanes"]}
    assert lanes["main"][:2] == ["1 / 64", "1"]
    assert [[cell["text"] for cell in row[:3]] for row in now["workers"]] == [["w1", "idle", "0"], ["w2", "unresponsive", "1"]]
    assert now["failed"][0][0]["href"] == f"/runs/{work[1].pk}/"
    assert [cell["text"] for cell in now["failed"][0]][1:3] == ["openai/gpt-5", "the model could not be reached"]
    assert [row[3]["text"] for row in now["slow"]] == ["9.6 s", "9.6 s"]
    page = compact_html(opened(operator).content.decode())
    for words in ("$0.0252", "7,710 tokens", "openai/gpt-5", "By agent", "failed 1"):
        assert words in page


def test_dashboard_is_not_ready_while_frozen(operator: User, work: list[Run]) -> None:
    def health() -> tuple[str, str]:
        tiles = json.loads(opened(operator, "/admin/dashboard/live/").content)["tiles"]
        return next((tile["value"], tile["tone"]) for tile in tiles if tile["key"] == "health")

    assert health() == ("ready", "good")
    freezes.freeze(Freeze.Scope.ALL, reason="smoke", by=operator)
    assert health() == ("frozen", "bad")
    assert '<div data-tile="health" data-tone="bad"><dt>Health</dt><dd>frozen</dd>' in compact_html(
        opened(operator).content.decode()
    )
    freezes.resume(Freeze.Scope.ALL, reason="aired", by=operator)
    assert health() == ("ready", "good")


def test_timestamps_use_the_common_format(operator: User, work: list[Run]) -> None:
    now = json.loads(opened(operator, "/admin/dashboard/live/").content)
    cell = now["failed"][0][-1]
    assert datetime.fromisoformat(cell["at"]) == work[1].ended_at
    assert f'<time datetime="{cell["at"]}" title="{cell["text"]}" aria-live="off" data-ago>' in compact_html(
        opened(operator).content.decode()
    )


def test_only_auditor_sees_error_details(operator: User, work: list[Run], make_user: Any) -> None:
    assert "connection refused" not in compact_html(opened(operator).content.decode())
    assert "a private question" not in compact_html(opened(operator).content.decode())
    auditor = staff(make_user("Auditor"))
    assert "connection refused" in opened(auditor).content.decode()


def test_dashboard_requires_staff_with_run_access(user: User, make_user: Callable[..., User], work: list[Run]) -> None:
    assert opened(user, "/admin/dashboard/live/").status_code == 403
    assert Client().get("/admin/dashboard/live/").status_code == 302
    clerk = opened(staff(make_user("User")))
    assert clerk.status_code == 200
    assert 'id="dashboard"' not in clerk.content.decode()
    assert opened(staff(make_user("User")), "/admin/dashboard/live/").status_code == 403


def test_query_count_is_constant(operator: User, user: User, make_session: Callable[..., Session], work: list[Run]) -> None:
    client = Client()
    client.force_login(operator)

    def queries(address: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as asked:
            assert client.get(address).status_code == 200
        return len(asked)

    queries("/admin/")  # the first page of a process also queries what never changes
    before = {address: queries(address) for address in ("/admin/", "/admin/dashboard/live/")}
    for number in range(5):
        create_recorded_run(user, make_session(user), f"more-{number}", status="error")
        Worker.objects.create(id=f"more-{number}", pid=1, started_at=clock.now(), heartbeat_at=sql.db_now(), version="1.0")
    assert {address: queries(address) for address in before} == before
    assert max(before.values()) <= MOST_QUERIES


def test_dashboard_works_on_empty_installation(operator: User) -> None:
    page = compact_html(opened(operator).content.decode())
    assert "No data for this period." in page
    assert "No workers found" in page


@pytest.mark.parametrize("width", [1280, 390])
def test_dashboard_refreshes_live(page: Page, site: str, operator: User, work: list[Run], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    sign_in(page, site, operator)
    page.goto(f"{site}/admin/")
    queued = page.locator("[data-tile=queued] dd").first
    expect(queued).to_have_text("1")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.locator(".dash-plot rect").count() == 3
    Run.objects.filter(run_id="queued").update(status="aborted", ended_at=clock.now())
    expect(queued).to_have_text("0", timeout=20_000)
    expect(page.locator("[data-rows=workers] tr")).to_have_count(2)
    page.locator("[data-rows=failed] a").first.click()
    expect(page.locator("#status")).to_have_text("failed")


def test_plots_and_counts_refresh_every_minute(
    page: Page, site: str, operator: User, user: User, make_session: Callable[..., Session], work: list[Run]
) -> None:
    page.clock.install()
    sign_in(page, site, operator)
    page.goto(f"{site}/admin/")
    used = page.locator("#dash-used-card")
    expect(used.locator(".dash-sum")).to_contain_text("7,710 tokens")
    expect(used.locator(".dash-word").filter(has_text="failed")).to_have_text("failed 1")
    used.locator("summary").click()
    page.evaluate("document.activeElement.blur()")
    create_recorded_run(user, make_session(user), "another", status="error")
    page.clock.fast_forward(61_000)
    expect(used.locator(".dash-word").filter(has_text="failed")).to_have_text("failed 2")
    expect(used.locator(".dash-sum")).to_contain_text("10,280 tokens")
    expect(used.locator("details table")).to_be_visible()  # what was open stays open
    assert page.locator("#dash-used-card").count() == 1
