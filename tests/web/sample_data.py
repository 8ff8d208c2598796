"""Sample data for tests that visit all pages: a chat and a row of every table."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from playwright.sync_api import Browser, FilePayload, Page, expect

from clawsite.accounts import tokens
from clawsite.accounts.models import FailedSignIns, FirstAdminLink, KnownAddress, User
from clawsite.connectors.webhook.models import Hook, HookDelivery
from clawsite.gateway.models import Device, DeviceToken, NodeInvocation, PairingRequest
from clawsite.infra import clock
from sessions_app.models import Freeze, Outbox, Run
from sessions_app.runs import lifecycle
from sessions_app.sessions.service import ensure_session
from tests.harness.approvals import create_decided_approval
from tools_app.models import Approval, ApprovalVote, Command, ExecRule, Grant, McpServer, Plugin
from tools_app.policy_store import policies, policy_tests

TIMEOUT_MS = 30_000  # ms
SIZES: dict[str, Any] = {
    "desk": {"viewport": {"width": 1280, "height": 800}},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}
SAMPLE_SESSION = "agent:main:talk-of-everything"
RICH_MARKDOWN = (
    "# Both files\n\nSome **bold** words, `code`, a [link](https://example.org/) and $x^2$.\n\n> quoted\n\n- [x] done\n- [ ] open\n"
    "\n```py\ndef f(x):  # a remark\n    return f'{x!r}' + 'text', 42, None\n```\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"
)
PICTURE = Path(__file__).parents[2] / "static/icons/icon-192.png"


OpenBrowser = Callable[[str], Page]


@contextmanager
def fresh_browsers(browser: Browser, address: str) -> Iterator[OpenBrowser]:
    """Open signed-out browsers of one of the SIZES; all are closed at the end."""
    opened: list[Page] = []

    def open_one(size: str) -> Page:
        context = browser.new_context(base_url=address, **SIZES[size])
        context.set_default_timeout(TIMEOUT_MS)
        opened.append(context.new_page())
        return opened[-1]

    yield open_one
    for page in opened:
        page.context.close()


@contextmanager
def long_timeout() -> Iterator[None]:
    """Let `expect` wait as long as a loaded machine may need."""
    expect.set_options(timeout=TIMEOUT_MS)
    yield
    expect.set_options(timeout=None)


def open_chat(page: Page, key: str) -> Page:
    page.goto("about:blank")  # forces a load if only the part after # differs
    page.goto(f"/#{key}")
    expect(page.locator("#connection")).to_have_attribute("data-state", "ready")
    return page


def submit(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.locator("#send").click()  # Enter starts a new line on phones


def open_all(page: Page, where: str) -> None:
    """Open all <details> elements."""
    page.locator(f"{where} details").evaluate_all("all => all.forEach((each) => { each.open = true })")


def fill_sample_chat(page: Page) -> None:
    """Create messages with files, thinking, a successful and a failed tool call, an answer and an error."""
    open_chat(page, SAMPLE_SESSION)
    text = FilePayload(name="notes.txt", mimeType="text/plain", buffer=b"milk")
    picture = FilePayload(name="sign.png", mimeType="image/png", buffer=PICTURE.read_bytes())
    page.locator("#files").set_input_files([text, picture])
    expect(page.locator('.upload[data-state="done"]')).to_have_count(2)
    tools = '[[tool=write args={"path":"a.txt","content":"hello"}]] [[tool=read args={"path":"not-there.txt"}]]'
    submit(page, f"Compare [[reasoning=5 text={json.dumps(RICH_MARKDOWN)}]] {tools}")
    expect(page.locator(".message.assistant .answer table").last).to_be_visible()
    expect(page.locator("#stop")).to_be_hidden()
    submit(page, "```sh\nmake\n```\n[[error=401]]")
    expect(page.locator(".ending[data-state=failed]")).to_be_visible()


@contextmanager
def sample_rows(root: User) -> Iterator[None]:
    """Create a row of every table that the chat has not filled, and one for each bulk action."""
    run = Run.objects.filter(session__key=SAMPLE_SESSION)[0]
    people = ContentType.objects.get_for_model(User)
    LogEntry.objects.create(user=root, content_type=people, object_id=str(root.pk), object_repr="ada", action_flag=CHANGE)
    Outbox.objects.create(session=run.session, run=run, channel="mail", payload={"text": "hello"}, created_at=clock.now())
    User.objects.create(username="gone", is_active=False)
    tokens.issue_token(root, "laptop", ["operator.read"])
    lifecycle.accept_run(user=root, session=ensure_session(root, "agent:main:hanging"), run_id="hanging", prompt="[[hang]]")
    create_decided_approval(root, root, run.session, run, 0)
    Freeze.objects.create(
        scope="agent", subject="demo", reason="it wrote too much", by=root, by_name="ada", at=clock.now(), lifted_at=clock.now()
    )
    hooks = [Hook.objects.create(slug=f"news{n}", name="News", enabled=bool(n), owner=root, token_digest="0") for n in range(2)]
    sent = {"path": "news1", "received_at": clock.now(), "address": "127.0.0.1", "outcome": "accepted", "status_code": 202}
    delivery = HookDelivery.objects.create(hook=hooks[1], run=run, body='{"a": 1}', **sent)
    device = Device.objects.create(owner=root, fingerprint="ab" * 32, public_key="x", display_name="Kitchen", is_node=True)
    DeviceToken.objects.create(device=device, role="node")
    later = clock.now() + timedelta(hours=1)
    PairingRequest.objects.create(fingerprint="cd" * 32, public_key="x", role="operator", expires_at=later)
    NodeInvocation.objects.create(
        owner=root,
        device=device,
        command="lights.on",
        request_hash="x",
        idempotency_key="k",
        timeout_ms=1,
        expires_at=later,
        status="done",
    )
    guests = Group.objects.create(name="Guests")
    policies.save_policy(scope="agent", subject="demo", deny=["exec"])
    test = policy_tests.save_test(name="demo never runs a command", expected="never", agent="demo", tool="exec")
    facts = {"command": "weather-server", "error": "no such city", "checked_at": clock.now()}
    servers = [McpServer.objects.create(name=f"weather{n}", enabled=bool(n), **facts) for n in range(2)]
    known = {"package": "clawsite-acme", "version": "1.0", "tools": ["acme_post"], "seen_at": clock.now()}
    plugins = [Plugin.objects.create(name=f"acme{n}", enabled=bool(n), **known) for n in range(2)]
    yield
    for model in (ApprovalVote, Grant, Approval, Command, ExecRule, Freeze, Device, PairingRequest):
        model.objects.all().delete()
    for row in (*servers, *plugins, delivery, *hooks):
        row.delete()
    policy_tests.delete_test(test.pk)
    policies.delete_policy(scope="agent", subject="demo")
    guests.delete()


def create_sign_in_rows() -> None:
    """Create rows of the tables that are emptied before every test."""
    FailedSignIns.objects.create(subject="account:ada", failures=3, last_failed_at=clock.now())
    KnownAddress.objects.create(account="account:ada", address="127.0.0.1", last_seen_at=clock.now())
    FirstAdminLink.objects.create(digest="0" * 64, expires_at=clock.now())
