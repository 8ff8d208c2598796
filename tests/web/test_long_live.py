"""Large amounts of data and a failing network, with a running installation."""

import uuid
from collections.abc import Callable
from datetime import timedelta

from playwright.sync_api import Browser, Page, expect

from clawsite.accounts.models import User
from clawsite.infra import clock
from sessions_app.events import journal
from sessions_app.events.journal import EntryPosition, NewEntry
from sessions_app.models import Session
from tests.harness.services import free_port
from tests.harness.stack import Stack
from tests.web.chat_page import answer_texts, answers, on_phone, send, show_chat_list
from tests.web.network_proxy import network_proxy
from tests.web.sample_data import SIZES

PATIENCE = 60_000
TURNS = 2_500
QUESTIONS = "() => [...document.querySelectorAll('.message.user .text')].map((each) => Number(each.textContent.match(/[0-9]+/)[0]))"


def long_talk(user: User) -> Session:
    session = Session.objects.create(owner=user, key="agent:demo:long", agent="demo", title="Long talk", entry_count=2 * TURNS)
    words = [(role, f"{role} {n}") for n in range(1, TURNS + 1) for role in ("user", "assistant")]
    entries = [
        (
            EntryPosition(session.pk, 1, at),
            NewEntry("message", role, [{"type": "text", "text": text}], text, f"{session.pk.hex[:8]}{at}"),
        )
        for at, (role, text) in enumerate(words, 1)
    ]
    for start in range(0, len(entries), 500):
        journal.insert_entries(entries[start : start + 500], clock.now())
    return session


def test_five_thousand_messages_load_in_pages_without_gaps(live: Stack, user: User, page: Page, browser: Browser) -> None:
    session = long_talk(user)
    live.sign_in(page, user)
    page.goto(f"{live.url}/#{session.key}")
    expect(page.locator(".message.user").last).to_contain_text(f"user {TURNS}", timeout=PATIENCE)
    assert len(page.evaluate(QUESTIONS)) < 200  # only the newest page
    for _ in range(4):
        first = page.evaluate(QUESTIONS)[0]
        page.locator("#log").evaluate("(log) => log.scrollTo(0, 0)")
        expect(page.locator(".message.user .text").first).not_to_have_text(f"user {first}", timeout=PATIENCE)
    seen = page.evaluate(QUESTIONS)
    assert seen == list(range(seen[0], TURNS + 1))
    middle = f"{session.pk.hex[:8]}2501"
    page.goto("about:blank")
    page.goto(f"{live.url}/#{session.key}/{middle}")
    expect(page.locator(f"[data-message-id='{middle}']")).to_be_in_viewport(timeout=PATIENCE)
    around = page.evaluate(QUESTIONS)
    assert 1251 in around
    assert len(around) < 200
    page.locator("#log").evaluate("(log) => log.scrollTo(0, log.scrollHeight)")  # load newer messages from there
    expect(page.locator(".message.user .text").last).not_to_have_text(f"user {around[-1]}", timeout=PATIENCE)
    phone = browser.new_context(**SIZES["phone"]).new_page()
    live.sign_in(phone, user)
    phone.goto(f"{live.url}/#{session.key}")
    expect(phone.locator(".message.user").last).to_contain_text(f"user {TURNS}", timeout=PATIENCE)
    first = phone.evaluate(QUESTIONS)[0]
    phone.locator("#log").evaluate("(log) => log.scrollTo(0, 0)")
    expect(phone.locator(".message.user .text").first).not_to_have_text(f"user {first}", timeout=PATIENCE)
    seen = phone.evaluate(QUESTIONS)
    assert seen == list(range(seen[0], TURNS + 1))
    phone.context.close()


@on_phone
def test_all_five_hundred_conversations_are_listed(live: Stack, user: User, page: Page) -> None:
    now = clock.now()
    Session.objects.bulk_create(
        Session(
            owner=user, key=f"agent:demo:{uuid.uuid4().hex}", agent="demo", title=f"Talk {n}", updated_at=now - timedelta(minutes=n)
        )
        for n in range(500)
    )
    live.sign_in(page, user)
    page.goto(f"{live.url}/#agent:demo:new")
    expect(page.locator("#connection")).to_have_text("Connected", timeout=PATIENCE)
    show_chat_list(page)
    rows = page.locator("#session-list li[data-key]").filter(has_text="Talk")
    expect(rows.first).to_contain_text("Talk 0", timeout=PATIENCE)
    assert rows.count() < 200
    while rows.count() < 500:
        shown = rows.count()
        page.locator("#sessions .scroller").evaluate("(list) => list.scrollTo(0, list.scrollHeight)")
        expect(rows.nth(shown)).to_be_attached(timeout=PATIENCE)
    expect(page.locator("#more-sessions")).to_be_hidden()
    expect(rows).to_have_count(500)
    expect(rows.last).to_contain_text("Talk 499")


def test_network_loss_mid_answer_loses_no_text(stack: Callable[..., Stack], user: User, page: Page) -> None:
    port = free_port()
    with network_proxy(port) as network:
        site = stack(ports=[port], env={"CLAWSITE_ORIGINS": f"http://127.0.0.1:{network.port}"})
        site.sign_in(page, user)
        page.goto(f"http://127.0.0.1:{network.port}/#agent:main:cut")
        expect(page.locator("#connection")).to_have_text("Connected", timeout=PATIENCE)
        send(page, "[[tokens=120 delay_ms=40]]")
        expect(answers(page)).not_to_be_empty(timeout=PATIENCE)
        network.cut()
        expect(page.locator("#connection")).not_to_have_text("Connected", timeout=PATIENCE)
        send(page, '[[text="and another"]]')  # kept until the network is back
        network.restore()
        expect(answers(page).last).to_have_text("and another", timeout=PATIENCE)
        expect(page.locator("#stop")).to_be_hidden(timeout=PATIENCE)
        live_text = answer_texts(page)
        page.reload()
        expect(answers(page).last).to_have_text("and another", timeout=PATIENCE)
        assert answer_texts(page) == live_text
        assert len(live_text[0].split()) == 120
