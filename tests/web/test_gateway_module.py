"""static/js/shared/gateway.js as another site's page uses it: without our pages, from another origin, with a token."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route

from tests.harness.services import free_port
from tests.web.chat_page import wait_until
from tests.web.fake_gateway import KEY, FakeGateway

SCRIPTS = Path(__file__).parents[2] / "static/js/shared"
THEIRS = "http://elsewhere.test"

# Runs in a page of another program: creates a Gateway and records what the tests check.
START = """async ({ url, token }) => {
  const { Gateway } = await import("/gateway.js");
  const seen = { states: [], events: [], gaps: 0 };
  const gateway = new Gateway({
    url, token, client: { id: "their-page", version: "1", platform: "web", mode: "ui" },
    onState: (state) => seen.states.push(state.name),
    onEvent: (name, payload) => seen.events.push([name, payload]),
    onGap: () => { seen.gaps += 1; },
  });
  Object.assign(window, { gateway, seen });
  gateway.start();
}"""


def plain_file(name: str) -> tuple[str, str]:
    """An empty page with copies of the two modules."""
    if name in ("gateway.js", "feed.js"):
        return "text/javascript", (SCRIPTS / name).read_text()
    return "text/html", "<!doctype html><title>Theirs</title><p>Nothing of ours.</p>"


def answer(route: Route) -> None:
    kind, body = plain_file(route.request.url.removeprefix(f"{THEIRS}/"))
    route.fulfill(content_type=kind, body=body)


@pytest.fixture
def plain(page: Page, gateway: FakeGateway) -> Page:
    page.route(f"{THEIRS}/**", answer)
    page.goto(f"{THEIRS}/")
    return page


def start(page: Page, url: str = "ws://claw.test/ws", token: str = "claw_secret") -> Page:
    page.evaluate(START, {"url": url, "token": token})
    until_state(page, "ready")
    return page


def seen(page: Page) -> Any:
    return page.evaluate("seen")


def until_state(page: Page, name: str, times: int = 1) -> None:
    wait_until(page, lambda: seen(page)["states"].count(name) >= times)


def test_module_works_standalone_with_access_token(plain: Page, gateway: FakeGateway) -> None:
    start(plain)
    (asked,) = gateway.calls("connect")
    assert asked["auth"] == {"token": "claw_secret"}
    assert asked["client"]["id"] == "their-page"
    assert plain.evaluate("gateway.request('sessions.list', {}).then(({sessions}) => sessions[0].key)") == KEY


def test_two_missed_ticks_mean_lost_connection(plain: Page, gateway: FakeGateway) -> None:
    plain.clock.install()
    start(plain)
    plain.clock.fast_forward(25_000)  # less than two ticks of 15 s, with some margin because the clock continues
    assert gateway.connections == 1
    plain.clock.fast_forward(20_000)
    wait_until(plain, lambda: "waiting" in seen(plain)["states"])
    plain.clock.fast_forward(1_000)
    until_state(plain, "ready", 2)
    assert gateway.connections == 2


def test_any_frame_resets_the_tick_timeout(plain: Page, gateway: FakeGateway) -> None:
    plain.clock.install()
    start(plain)
    for _ in range(4):
        plain.clock.fast_forward(20_000)
        before = len(seen(plain)["events"])
        gateway.send({"type": "event", "event": "tick", "payload": {"ts": 1}})
        wait_until(plain, lambda before=before: len(seen(plain)["events"]) > before)
    assert gateway.connections == 1


def test_missing_sequence_number_is_reported_once(plain: Page, gateway: FakeGateway) -> None:
    start(plain)
    tick = {"type": "event", "event": "tick", "payload": {}}
    gateway.send(tick)
    gateway.send(tick)
    gateway.frame_seq += 3  # three were lost
    gateway.send(tick)
    gateway.send(tick)
    wait_until(plain, lambda: len(seen(plain)["events"]) == 4)
    assert seen(plain)["gaps"] == 1
    gateway.disconnect()
    until_state(plain, "ready", 2)
    gateway.send(tick)  # numbers restart with each connection
    wait_until(plain, lambda: len(seen(plain)["events"]) == 5)
    assert seen(plain)["gaps"] == 1


def test_session_is_followed_across_gap_and_reconnect(plain: Page, gateway: FakeGateway) -> None:
    start(plain)
    plain.evaluate(
        """async (key) => {
          const { SessionFeed } = await import("/feed.js");
          window.text = "";
          window.feed = new SessionFeed({
            gateway, sessionKey: key, onHistory: () => {},
            onEvent: ({ data }) => { window.text += data.delta; },
          });
          gateway.onEvent = (name, payload) => { if (payload.cursor) feed.take(payload); };
          gateway.onGap = () => feed.sync();
          gateway.onState = ({ name }) => { seen.states.push(name); if (name === "ready") feed.sync(); };
          await feed.sync();
        }""",
        KEY,
    )
    gateway.stream_text("r1", "a", 0)
    gateway.record_event("r1", "assistant", messageId="m1", attempt=1, delta="b", offset=1)  # no event was delivered
    gateway.frame_seq += 1
    gateway.stream_text("r1", "c", 2)
    wait_until(plain, lambda: plain.evaluate("text") == "abc")
    gateway.disconnect()
    gateway.record_event("r1", "assistant", messageId="m1", attempt=1, delta="d", offset=3)
    wait_until(plain, lambda: plain.evaluate("text") == "abcd")


def test_unanswered_request_times_out(plain: Page, gateway: FakeGateway) -> None:
    start(plain)
    gateway.answers["health"] = None
    said = plain.evaluate("gateway.request('health', {}, { timeoutMs: 50 }).catch(({ code, retryable }) => ({ code, retryable }))")
    assert said == {"code": "TIMEOUT", "retryable": True}
    assert plain.evaluate("gateway.pending.size") == 0
    gateway.respond_late("health", lambda params: {"ok": True})  # too late, and without effect
    assert plain.evaluate("gateway.request('health').then(({ ok }) => ok)")


def test_expect_final_waits_for_second_response(plain: Page, gateway: FakeGateway) -> None:
    start(plain)
    gateway.answers["agent"] = None
    plain.evaluate("""() => {
      const ask = (options) => gateway.request("agent", {}, options).then(({ status }) => status, ({ code }) => code);
      window.told = {};
      for (const [name, options] of Object.entries({ first: {}, final: { expectFinal: true }, failed: { expectFinal: true } }))
        ask(options).then((status) => { told[name] = status; });
    }""")
    gateway.wait_for_calls("agent", 3)
    (socket, first), (_, final), (_, failed) = gateway.unanswered

    def send(frame: dict[str, Any], **reply: Any) -> None:
        socket.send(json.dumps({"type": "res", "id": frame["id"], **reply}))

    for frame in (first, final, failed):
        send(frame, ok=True, payload={"status": "accepted"})
    wait_until(plain, lambda: plain.evaluate("told") == {"first": "accepted"})
    send(first, ok=True, payload={"status": "ok"})
    send(failed, ok=False, error={"code": "UNAVAILABLE", "message": "no"}, payload={"status": "error"})
    wait_until(plain, lambda: plain.evaluate("told.failed") == "UNAVAILABLE")
    assert plain.evaluate("told") == {"first": "accepted", "failed": "UNAVAILABLE"}
    send(final, ok=True, payload={"status": "ok"})
    wait_until(plain, lambda: plain.evaluate("told.final") == "ok")
    assert plain.evaluate("gateway.pending.size") == 0


def test_pending_requests_are_rejected_on_disconnect(plain: Page, gateway: FakeGateway) -> None:
    start(plain)
    gateway.answers["health"] = None
    plain.evaluate("window.asked = gateway.request('health').catch(({ code }) => code); null")
    gateway.wait_for_calls("health")
    gateway.disconnect()
    assert plain.evaluate("asked") == "DISCONNECTED"
    until_state(plain, "ready", 2)
    assert len(gateway.calls("health")) == 1


def test_closed_gateway_never_reconnects(plain: Page, gateway: FakeGateway) -> None:
    plain.clock.install()
    start(plain)
    gateway.answers["health"] = None
    plain.evaluate("window.asked = gateway.request('health').catch(({ code }) => code); null")
    gateway.wait_for_calls("health")
    plain.evaluate("gateway.close()")
    assert plain.evaluate("asked") == "DISCONNECTED"
    assert plain.evaluate("gateway.request('health').catch(({ code }) => code)") == "DISCONNECTED"
    plain.clock.fast_forward(60_000)
    plain.evaluate("window.dispatchEvent(new Event('online'))")
    assert gateway.connections == 1
    assert seen(plain)["states"][-1] == "closed"


@contextmanager
def their_server() -> Iterator[str]:
    """A page of another program with a real server: browsers don't let a page without an origin connect to this host."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = plain_file(self.path.lstrip("/"))
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_page_of_allowed_origin_can_use_gateway(page: Page, stack: Any, user: Any) -> None:
    from clawsite.accounts.tokens import issue_token

    token = issue_token(user, "their page", ["operator.read", "operator.write"])[1]
    port = free_port()
    with their_server() as theirs:
        stack(ports=[port], env={"CLAWSITE_ORIGINS": f"http://127.0.0.1:{port},{theirs}"})
        page.goto(f"{theirs}/")
        start(page, f"ws://127.0.0.1:{port}/ws", token)
    told = page.evaluate(
        """() => new Promise((resolve, reject) => {
          gateway.onEvent = (name, payload) => { if (name === "chat" && payload.state === "final") resolve(payload.message); };
          const params = { sessionKey: "agent:main:theirs", message: "say hello [[tokens=3]]", idempotencyKey: "k1" };
          gateway.request("chat.send", params).catch(reject);
        })"""
    )
    assert told["role"] == "assistant"
    assert told["content"][0]["text"]
    page.evaluate("gateway.close()")
