"""Text from agents, users, tools and files stays text wherever it is displayed: on a running installation, in a real browser.

Each test sends all of hostile_text.py through one entry point and checks the pages that show it. Nothing may run, load remote
content, violate the content policy, or become an element that text cannot be.
"""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from django.urls import reverse
from markdown_it import MarkdownIt
from playwright.sync_api import Browser, FilePayload, Page, Route, expect

import clawsite.urls  # noqa: F401  # it registers the pages of the admin
from agents.models import Agent
from clawsite.accounts import tokens
from clawsite.accounts.models import BrowserSession, FailedSignIns, KnownAddress, User
from clawsite.connectors.webhook.models import Hook, HookDelivery
from clawsite.gateway.models import Device, NodeInvocation, PairingRequest
from clawsite.infra import clock
from sessions_app.models import Attachment, Freeze, Outbox, Run, Session, ToolCall
from sessions_app.runs import lifecycle
from sessions_app.sessions.service import ensure_session, inject_message
from tests.harness.stack import Stack
from tests.web.chat_page import answers, send
from tests.web.hostile_text import FAMILIES, PAYLOAD, REMOTE_ORIGIN, STARTS_A_FENCE, STRINGS, PageWatch
from tests.web.sample_data import TIMEOUT_MS, long_timeout, open_all, open_chat
from tools_app.models import Grant, McpServer, Plugin, PolicyTest

ALL = "\n\n".join(STRINGS)
TYPED = "\n\n".join(text for text in STRINGS if not text.startswith(STARTS_A_FENCE))  # as typed; rendered with a fence
NAMES = [text for text in STRINGS if "\n" not in text]
AGENTS = [FAMILIES[family][0][:100] for family in FAMILIES]


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    with long_timeout():
        yield


@pytest.fixture(scope="module")
def root(live: Stack) -> User:
    user = User.objects.create(username="mallory", display_name=FAMILIES["raw html"][1], is_staff=True, is_superuser=True)
    user.groups.set(Group.objects.all())
    return user


@pytest.fixture(scope="module")
def window(browser: Browser, live: Stack, root: User) -> Iterator[tuple[Page, PageWatch]]:
    context = browser.new_context(base_url=live.url, viewport={"width": 1280, "height": 800})
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    live.sign_in(page, root)
    yield page, PageWatch(page, live.url)
    context.close()


@pytest.fixture
def page(window: tuple[Page, PageWatch]) -> Page:
    return window[0]


@pytest.fixture
def watch(window: tuple[Page, PageWatch]) -> Iterator[PageWatch]:
    """Fail the test with everything that was noticed while it ran."""
    window[1].faults.clear()
    yield window[1]
    assert window[1].faults == []


@pytest.fixture
def talk(page: Page, watch: PageWatch) -> Callable[..., None]:
    """Send text in a new session, and check it live and again after a reload."""

    def say(key: str, prompt: str, arrived: Callable[[], None]) -> None:
        open_chat(page, key)
        send(page, prompt)
        expect(page.locator(".ending[data-state=ended], .ending[data-state=failed]")).to_be_attached()
        for where in ("live", "stored"):
            expect(page.locator("#messages .message.user")).to_be_visible()
            open_all(page, "#messages")
            arrived()
            watch.inspect(page, f"{key} {where}")
            page.reload()

    return say


def marker(**options: Any) -> str:
    return "[[" + " ".join(f"{name}={json.dumps(value)}" for name, value in options.items()) + "]]"


def test_hostile_messages_and_answers_are_harmless(page: Page, talk: Callable[..., None]) -> None:
    def arrived() -> None:
        expect(answers(page)).to_contain_text("onerror=")
        expect(page.locator(".message.user > .text")).to_contain_text("onerror=")

    talk("agent:main:answered", f"look: {TYPED} {marker(text=ALL)}", arrived)


def test_hostile_message_with_code_is_harmless(page: Page, talk: Callable[..., None]) -> None:
    def arrived() -> None:
        expect(page.locator(".message.user.markdown > .text pre").first).to_be_visible()

    talk("agent:main:asked", f"look:\n\n{ALL}", arrived)


def test_each_hostile_string_alone_is_harmless(page: Page, watch: PageWatch) -> None:
    """One text may spoil the next, so each is also rendered alone, by the page's own renderer."""
    open_chat(page, "agent:main:answered")
    page.evaluate(
        """async (texts) => {
          const { Gateway } = await import("/static/js/shared/gateway.js");
          const { Renderer } = await import("/static/js/chat/markdown/renderer.js");
          const { StreamedText } = await import("/static/js/chat/markdown/streamed_text.js");
          const words = Object.assign({}, ...[...document.querySelectorAll(".words")].map(({ dataset }) => dataset));
          const gateway = await new Promise((done) => {
            const made = new Gateway({ url: location.origin.replace("http", "ws") + "/ws",
              client: { id: "webchat-ui", mode: "webchat", version: "1", platform: "web" },
              onState: ({ name }) => name === "ready" && done(made), onEvent: () => {}, onGap: () => {} });
            made.start();
          });
          const renderer = new Renderer(gateway);
          for (const text of texts) {
            const root = document.createElement("div");
            root.className = "alone markdown";
            document.getElementById("messages").append(root);
            new StreamedText(root, { texts: words, renderer }).settle(text, await renderer.render(text));
          }
        }""",
        STRINGS,
    )
    expect(page.locator(".alone")).to_have_count(len(STRINGS))
    watch.inspect(page, "alone")


def test_hostile_thinking_is_harmless(page: Page, talk: Callable[..., None]) -> None:
    def arrived() -> None:
        expect(page.locator(".thinking .text")).to_contain_text("onerror=")

    talk("agent:main:thought", marker(text=f"<think>{ALL}</think>done"), arrived)


def test_hostile_tool_calls_are_harmless(page: Page, talk: Callable[..., None]) -> None:
    def arrived() -> None:
        expect(page.locator(".tool")).to_have_count(3)
        expect(page.locator(".tool .arguments").nth(1)).to_contain_text("onerror=")
        expect(page.locator(".tool .result pre").last).to_contain_text("__hurt")

    unknown = marker(tool=FAMILIES["raw html"][1], args={text[:200]: text for text in NAMES[:40]})
    calls = marker(tool="write", args={"path": "notes.txt", "content": ALL}), marker(tool="read", args={"path": "notes.txt"})
    talk("agent:main:tools", " ".join([unknown, *calls]), arrived)


def test_hostile_errors_are_harmless(page: Page, talk: Callable[..., None]) -> None:
    told = " ".join(NAMES)[:3000]
    for name, options in (
        ("refused", {"error": 400, "code": "bad", "message": told}),
        ("broken", {"text": "a b c", "fault_after": 2, "message": told}),
    ):
        talk(f"agent:main:{name}", marker(**options), lambda: expect(page.locator(".ending[data-state=failed]")).to_be_visible())


def test_hostile_file_names_are_harmless(page: Page, talk: Callable[..., None], watch: PageWatch) -> None:
    open_chat(page, "agent:main:files")
    names = [
        *FAMILIES["file names"],
        FAMILIES["break-outs"][0],
        FAMILIES["templates"][1],
        FAMILIES["images"][1],
        FAMILIES["styles"][1],
    ]
    page.locator("#files").set_input_files([FilePayload(name=name, mimeType="text/html", buffer=ALL.encode()) for name in names])
    expect(page.locator('.upload[data-state="done"]')).to_have_count(len(names))
    watch.inspect(page, "files to send")
    send(page, "read them")
    attached = page.locator(".message.user .attached")
    for where in ("live", "stored"):
        expect(attached).to_have_count(len(names))
        watch.inspect(page, f"files {where}")
        page.reload()
    kept = Attachment.objects.filter(owner__username="mallory")
    for file in kept:
        answer = page.request.get(reverse("attachment", args=[file.pk]))
        assert answer.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in answer.headers["content-security-policy"]
    kept.update(name=FAMILIES["raw html"][1])


def test_hostile_titles_and_agent_names_are_harmless(page: Page, watch: PageWatch, root: User) -> None:
    for number, title in enumerate(NAMES):
        session = ensure_session(root, f"agent:main:titled-{number}")
        Session.objects.filter(pk=session.pk).update(title=title[:200], label=title)
    inject_message(root, session, ALL)  # for the search, which covers message text
    for number, name in enumerate(AGENTS):
        Agent.objects.update_or_create(
            slug=f"hostile-{number}", defaults={"name": name, "model": "openai/fake-1", "instructions": ALL}
        )
    open_chat(page, "agent:main:titled-3")
    expect(page.locator("#session-list li").nth(40)).to_be_attached()
    expect(page.locator("#title")).to_have_text(NAMES[3])
    watch.inspect(page, "list")
    page.locator("#choose-agent").click()
    expect(page.locator("#agent-menu [role=menuitem]").nth(len(AGENTS))).to_be_attached()
    page.keyboard.press("Escape")
    page.locator("#toggle-details").click()
    expect(page.locator("#agent option").nth(len(AGENTS))).to_be_attached()
    watch.inspect(page, "agents")
    for words in ("onerror", "script", "javascript evil"):
        page.get_by_label("Search all chats").fill(words)
        expect(page.locator("#found-list mark").first).to_be_visible()
        watch.inspect(page, f"search for {words}")
    page.get_by_label("Search all chats").fill("")
    page.locator("#open-palette").click()
    page.locator("#palette-words").fill("img")
    expect(page.locator("#palette-list [role=option]").first).to_be_visible()
    watch.inspect(page, "palette")
    page.locator("#palette-words").fill(FAMILIES["raw html"][1])
    watch.inspect(page, "palette for markup")


def test_hostile_text_on_overview_pages_is_harmless(page: Page, watch: PageWatch, live: Stack, root: User) -> None:
    for name in NAMES[:30]:
        tokens.issue_token(root, name[:100], ["operator.read"])
    for agent in (*FAMILIES["raw html"], *FAMILIES["break-outs"]):
        other = Client()
        other.force_login(root)
        looks = {"user": root, "user_agent": agent[:300], "address": agent[:64]}
        BrowserSession.objects.update_or_create(session_id=other.session.session_key, defaults=looks)
    page.goto("/account/")
    expect(page.locator("#tokens")).to_contain_text("onerror=")
    watch.inspect(page, "account")
    page.goto("/runs/")
    watch.inspect(page, "runs")
    for run in Run.objects.filter(owner=root):
        page.goto(f"/runs/{run.pk}/")
        expect(page.locator("#place")).to_contain_text(f"event {run.seq} of")
        watch.inspect(page, f"run {run.pk}")
    page.goto("/admin/")
    expect(page.locator("#dashboard")).to_be_visible()
    watch.inspect(page, "dashboard")


@pytest.fixture(scope="module")
def rows(root: User) -> Iterator[None]:
    """Create rows of tables that the other tests have not filled."""
    session = ensure_session(root, "agent:main:administered")
    run = Run.objects.get(pk=lifecycle.accept_run(user=root, session=session, run_id="administered", prompt=ALL).pk)
    nasty = FAMILIES["raw html"][1]
    user_type = ContentType.objects.get_for_model(User)
    LogEntry.objects.create(
        user=root, content_type=user_type, object_id="1", object_repr=nasty, action_flag=CHANGE, change_message=nasty
    )
    Outbox.objects.get_or_create(
        session=run.session, run=run, channel="<b>x", defaults={"payload": {nasty: ALL}, "created_at": clock.now()}
    )
    User.objects.get_or_create(username=nasty, display_name=FAMILIES["break-outs"][0])
    Group.objects.get_or_create(name=nasty)
    Run.objects.filter(pk=run.pk).update(error=ALL, reason=nasty[:60], worker=nasty)
    ToolCall.objects.filter(session__owner=root).update(refused_by=nasty[:30])
    told = [{"name": nasty[:60], "description": ALL, "inputSchema": {"type": "object"}}]
    server = McpServer.objects.create(name="nasty", command=nasty, args=[nasty], url=nasty, error=ALL, tools=told, notes=[ALL])
    test = PolicyTest.objects.create(name=nasty[:120], expected="never", agent="demo", tool="exec")
    plugin = Plugin.objects.create(
        name=nasty[:64], package=nasty, version=nasty[:60], tools=[nasty], error=ALL, seen_at=clock.now()
    )
    grant = Grant.objects.create(scope="agent", subject=nasty[:60], line=ALL, note=nasty[:300], created_at=clock.now())
    stop = Freeze.objects.create(
        scope="agent", subject="gone", reason=nasty[:500], by_name=nasty[:150], at=clock.now(), lifted_at=clock.now()
    )
    texts = {"instructions": ALL, "message_template": ALL, "session_key_template": nasty[:200], "signature_header": nasty[:80]}
    hook = Hook.objects.create(slug=nasty[:64], name=nasty[:80], owner=root, agent=nasty[:64], token_digest="0", **texts)
    sent = {"path": nasty[:64], "received_at": clock.now(), "address": nasty[:64], "outcome": "accepted", "status_code": 202}
    delivery = HookDelivery.objects.create(hook=hook, run=run, body=ALL, error=nasty[:500], delivery_id=nasty[:200], **sent)
    device = Device.objects.create(
        owner=root,
        fingerprint="ab" * 32,
        public_key=nasty[:60],
        display_name=nasty,
        platform=nasty[:100],
        client_id=nasty,
        is_node=True,
        declared={"commands": [nasty], nasty: ALL},
        allowed_commands=[nasty],
        last_address=nasty[:60],
    )
    told_of_itself = {"displayName": nasty, "clientId": ALL, "commands": [nasty]}
    asking = PairingRequest.objects.create(
        fingerprint="cd" * 32,
        public_key=nasty[:60],
        role="node",
        facts=told_of_itself,
        address=nasty[:60],
        expires_at=clock.now() + timedelta(hours=1),
    )
    NodeInvocation.objects.create(
        owner=root,
        device=device,
        command=nasty[:200],
        params_json=ALL,
        result_json=ALL,
        error_message=nasty[:1000],
        request_hash="x",
        idempotency_key="k",
        timeout_ms=1,
        expires_at=clock.now(),
    )
    yield
    for each in (server, plugin, test, grant, stop, delivery, hook, device, asking):
        each.delete()
    Group.objects.filter(name=nasty).delete()


@pytest.fixture
def sign_in_rows(_reset_throttling: None) -> None:
    """Create rows of the tables that are emptied before each test."""
    nasty = FAMILIES["raw html"][1]
    FailedSignIns.objects.create(subject=nasty, failures=3, last_failed_at=clock.now())
    KnownAddress.objects.create(account=nasty, address=nasty, last_seen_at=clock.now())


def test_hostile_device_names_are_harmless(page: Page, watch: PageWatch, rows: None) -> None:
    page.goto("/account/#devices")
    expect(page.locator("#devices .rows li")).to_have_count(2)
    open_all(page, "#devices")
    watch.inspect(page, "devices")


@pytest.mark.parametrize("model", admin.site._registry, ids=lambda model: model._meta.label_lower)
def test_hostile_text_in_admin_is_harmless(page: Page, watch: PageWatch, rows: None, sign_in_rows: None, model: Any) -> None:
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    row = model._default_manager.order_by("-pk").first()
    addresses = [reverse(f"{name}_changelist")]
    if row is not None:
        addresses += [reverse(f"{name}_{view}", args=[row.pk]) for view in ("change", "history")]
    for address in addresses:
        page.goto(address)
        watch.inspect(page, address)
    page.goto(addresses[0])
    for action in page.locator("select[name=action] option:not([value=''])").evaluate_all("all => all.map((each) => each.value)"):
        page.goto(addresses[0])
        page.evaluate("document.querySelectorAll('input.action-select').forEach((box) => { box.checked = true })")
        page.locator("select[name=action]").select_option(action)
        page.get_by_role("button", name="Go").click()
        watch.inspect(page, f"{addresses[0]} {action}")


def test_unsanitized_hostile_text_is_detected(browser: Browser, live: Stack) -> None:
    """Without sanitizing and without a policy, every family is detected, so that silence above means something."""
    context = browser.new_context()
    page = context.new_page()
    watch = PageWatch(page, live.url)
    bare = f"{live.url}/bare"
    page.route(bare, lambda route: _empty(route))
    parser = MarkdownIt("commonmark", {"html": True})
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # how the library wants it
    unnoticed = []
    for family, texts in FAMILIES.items():
        page.goto(bare)
        watch.faults.clear()
        page.evaluate("html => { document.body.innerHTML = html }", "".join(parser.render(text) + text for text in texts))
        page.wait_for_function("() => [...document.images].every((image) => image.complete)")
        watch.inspect(page, family)
        if not watch.faults:
            unnoticed.append(family)
    page.goto(bare)
    watch.faults.clear()
    page.evaluate("html => { document.body.innerHTML = html }", f"<img src=x onerror={PAYLOAD}><img src={REMOTE_ORIGIN}/x.png>")
    page.wait_for_function("() => '__pwned' in window")
    watch.inspect(page, "one")
    context.close()
    assert unnoticed == []
    kinds = " ".join(watch.faults)
    assert "it ran" in kinds and "a handler" in kinds and f"request: {REMOTE_ORIGIN}/x.png" in kinds


def _empty(route: Route) -> None:
    route.fulfill(body="<!doctype html><title>bare</title>", content_type="text/html")
