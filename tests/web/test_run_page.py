"""The run page: the server's part without scripts, and the timeline in a browser."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, expect

from clawsite.accounts.models import User
from sessions_app.models import Event, Run, Session
from tests.harness.recorded_run import create_recorded_run, recorded_events, wire_events
from tests.web.chat_page import sign_in
from tests.web.fake_gateway import FakeGateway, Refused

pytestmark = pytest.mark.usefixtures("database")

PHONE = {"width": 390, "height": 844}


@pytest.fixture
def flight(user: User, make_session: Callable[..., Session]) -> Run:
    return create_recorded_run(user, make_session(user, "agent:main:talk"))


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text_of(answer: Any) -> str:
    return str(answer.content.decode())


def test_summary_works_without_javascript(user: User, flight: Run) -> None:
    page = text_of(signed_in(user).get(f"/runs/{flight.pk}/"))
    for words in (
        "Compare the two notes",
        "openai/gpt-5",
        "$0.0084",
        "2,400 input, 170 output",
        "10 s",
        "1.5 s",
        "denied by layer agent",
    ):
        assert words in page
    assert "deny entry `write`" in page


def test_run_list_shows_own_runs_with_paging(user: User, flight: Run, make_user: Callable[..., User], make_session: Any) -> None:
    other = make_user()
    create_recorded_run(other, make_session(other), "theirs")
    client = signed_in(user)
    assert re.findall(r'href="/runs/(\d+)/"', text_of(client.get("/runs/"))) == [str(flight.pk)]
    assert "None of your runs are in this state" in text_of(client.get("/runs/?status=error"))
    assert f"/runs/{flight.pk}/" not in text_of(client.get(f"/runs/?before={flight.pk}"))
    assert [client.get(f"/runs/?{bad}").status_code for bad in ("status=lost", "before=x", "before=9999999999999999999999")] == [
        404
    ] * 3


def test_run_page_is_hidden_from_other_users(flight: Run, make_user: Callable[..., User]) -> None:
    stranger = signed_in(make_user())
    for address in (f"/runs/{flight.pk}/", f"/runs/{flight.pk}/export/", "/runs/99999999999999999999999999/"):
        assert stranger.get(address).status_code == 404
        assert Client().get(address).status_code == 302


def test_operator_sees_run_without_message_text(flight: Run, make_user: Callable[..., User]) -> None:
    operator = signed_in(make_user("Operator"))
    page = text_of(operator.get(f"/runs/{flight.pk}/"))
    assert "denied by layer agent" in page and "not its content" in page
    export = text_of(operator.get(f"/runs/{flight.pk}/export/"))
    for secret in ("Compare the two notes", "notes/one.md", "milk", "Both files"):
        assert secret not in page and secret not in export


def test_export_contains_summary_and_every_event(user: User, flight: Run) -> None:
    answer = signed_in(user).get(f"/runs/{flight.pk}/export/")
    assert answer["Content-Disposition"] == f'attachment; filename="run-{flight.pk}.json"'
    exported = json.loads(answer.content)
    assert [event["seq"] for event in exported["events"]] == list(range(1, flight.seq + 1))
    assert (exported["run"]["runId"], exported["attempts"], len(exported["toolCalls"])) == ("k1", 2, 3)


def test_run_with_purged_events_shows_notice(user: User, flight: Run) -> None:
    Event.objects.filter(run=flight).delete()
    assert "were deleted because of their age" in text_of(signed_in(user).get(f"/runs/{flight.pk}/"))


@pytest.fixture
def recorder(page: Page, gateway: FakeGateway, site: str, user: User, flight: Run) -> Page:
    """The page with the timeline loaded, on desktop."""
    events = wire_events(recorded_events())
    gateway.answers["runs.events"] = lambda asked: answer(events, asked)
    sign_in(page, site, user)
    page.goto(f"{site}/runs/{flight.pk}/")
    expect(page.locator("#place")).to_have_text(f"event {len(events)} of {len(events)}")
    return page


def answer(events: list[dict[str, Any]], asked: dict[str, Any], *, ended: bool = True) -> dict[str, Any]:
    new = [event for event in events if event["seq"] > asked["afterSeq"]][:20]  # in pages, as for long runs
    more = bool(new) and new[-1]["seq"] < events[-1]["seq"]
    return {"id": asked["id"], "runId": "k1", "status": "completed", "ended": ended, "events": new, "more": more}


def test_recorder_opens_at_end_of_run(recorder: Page) -> None:
    story = recorder.locator("#story")
    expect(story.locator(".call")).to_have_count(3)
    expect(story.locator(".call .verdict").last).to_have_text("denied by policy layer agent")
    expect(story).to_contain_text("Both files say the same")
    expect(recorder.locator("#now-state")).to_have_text("completed")
    expect(recorder.locator("#now-tokens")).to_have_text("2,400 input, 170 output")
    expect(recorder.locator("#now-cost")).to_have_text("$0.0084")
    assert recorder.locator(".lanes .tool").count() == 3
    assert recorder.locator(".lanes .fault").count() == 2


def test_keyboard_steps_and_jumps_through_events(recorder: Page) -> None:
    recorder.locator("#scrub").focus()
    recorder.keyboard.press("Home")
    expect(recorder.locator("#place")).to_have_text(re.compile("event 1 of"))
    expect(recorder.locator("#story .said")).to_have_count(1)
    expect(recorder.locator("#now-state")).to_have_text("queued")
    recorder.keyboard.press("ArrowRight")
    expect(recorder.locator("#now-state")).to_have_text("running")
    recorder.keyboard.press("t")
    expect(recorder.locator("#story .call .name")).to_have_text(["read"])
    expect(recorder.locator("#story .call .args")).to_contain_text("notes/one.md")
    expect(recorder.locator("#story .call .state")).to_have_text("running")
    recorder.keyboard.press("t")
    expect(recorder.locator("#story .call")).to_have_count(2)
    recorder.keyboard.press("e")
    expect(recorder.locator("#story .note.bad")).to_contain_text("rate limit was reached")
    recorder.keyboard.press("ArrowLeft")
    expect(recorder.locator("#story .note.bad")).to_have_count(0)


def test_playback_shows_text_up_to_current_event(recorder: Page) -> None:
    recorder.locator("#events-stream").select_option("assistant")
    recorder.locator("#events-list li").nth(1).locator("summary").click()
    expect(recorder.locator("#events-list li pre:visible")).to_contain_text('"delta": "look "')
    recorder.locator("#events-list li").nth(1).get_by_role("button", name="Go to this moment").click()
    expect(recorder.locator("#story .said.open > .text")).to_have_text("I look ")
    expect(recorder.locator("#story .thought:visible")).to_contain_text("Two notes are meant")


def test_playback_runs_to_the_end(recorder: Page) -> None:
    recorder.locator("#speed").select_option("16")
    recorder.get_by_role("button", name="Play").click()
    expect(recorder.locator("#play")).to_have_attribute("aria-pressed", "true")
    expect(recorder.locator("#play")).to_have_attribute("aria-pressed", "false", timeout=20_000)
    expect(recorder.locator("#now-state")).to_have_text("completed")


def test_clicking_the_lanes_seeks(recorder: Page) -> None:
    box = recorder.locator("#lanes").bounding_box()
    assert box
    recorder.mouse.click(box["x"] + 2, box["y"] + 8)
    expect(recorder.locator("#now-state")).to_have_text("queued")
    recorder.mouse.click(box["x"] + box["width"] * 0.42, box["y"] + 8)
    expect(recorder.locator("#story .call")).to_have_count(2)


def test_active_run_is_followed_and_can_be_stopped(
    page: Page, gateway: FakeGateway, site: str, user: User, make_session: Callable[..., Session]
) -> None:
    run = create_recorded_run(user, make_session(user, "agent:main:talk"), ended=False)
    known = wire_events(recorded_events(ended=False))[:12]
    gateway.answers["runs.events"] = lambda asked: answer(known, asked, ended=False)
    sign_in(page, site, user)
    page.goto(f"{site}/runs/{run.pk}/")
    expect(page.locator("#place")).to_have_text("event 12 of 12")
    expect(page.locator("#live")).to_be_visible()
    known.extend(wire_events(recorded_events(ended=False))[12:])
    gateway.send_event("k1", "assistant", messageId="m1", attempt=1, delta="x", offset=0)
    expect(page.locator("#place")).to_have_text(f"event {len(known)} of {len(known)}")
    page.get_by_role("button", name="Stop").click()
    assert gateway.wait_for_calls("chat.abort", 1) == [{"sessionKey": "agent:main:talk", "runId": "k1"}]


def test_stored_run_plays_without_gateway_access(
    page: Page, gateway: FakeGateway, site: str, flight: Run, make_user: Callable[..., User]
) -> None:
    def refuse(asked: dict[str, Any]) -> dict[str, Any]:
        raise Refused("INVALID_REQUEST", "no", details={"code": "MISSING_SCOPE", "missingScope": "operator.read"})

    gateway.answers["runs.events"] = refuse
    sign_in(page, site, make_user("Operator"))
    page.goto(f"{site}/runs/{flight.pk}/")
    expect(page.locator("#place")).to_have_text(f"event {flight.seq} of {flight.seq}")
    expect(page.locator("#story .call")).to_have_count(3)
    expect(page.locator("#story")).to_contain_text("21 characters")
    expect(page.locator("#story")).not_to_contain_text("milk")


@pytest.mark.parametrize("night", [False, True], ids=["day", "night"])
def test_run_page_fits_on_phone(browser: Browser, site: str, user: User, flight: Run, night: bool) -> None:
    context = browser.new_context(viewport=PHONE, is_mobile=True, has_touch=True, color_scheme="dark" if night else "light")
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: "Content Security Policy" in message.text and faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    gateway = FakeGateway(page)
    gateway.answers["runs.events"] = lambda asked: answer(wire_events(recorded_events()), asked)
    sign_in(page, site, user)
    for address in (f"{site}/runs/{flight.pk}/", f"{site}/runs/"):
        page.goto(address)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    context.close()
    assert faults == []
