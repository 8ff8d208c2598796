"""The measurements of the pages, compared with simple pages from the same server in the same browser."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from playwright.sync_api import Browser, Page, expect

from bench.browser import sample_text
from bench.browser.page_metrics import OBSERVE, Frames, MainThread, visible_after
from bench.browser.profile import profiled
from bench.gateway.figures import Result, milliseconds
from bench.site import Site

if TYPE_CHECKING:
    from clawsite.accounts.models import User

PLAIN = "/healthz"  # a line of text, without a stylesheet or a script
TOKENS_PER_SECOND = 100

# Only appends the text of the same events to a <pre>: the minimal cost of a stream.
APPEND = """async ([key, message]) => {
  const { Gateway, randomId } = await import("/static/js/shared/gateway.js");
  const pre = document.createElement("pre");
  document.body.replaceChildren(pre);
  const params = { sessionKey: key, message, idempotencyKey: randomId() };
  const gateway = new Gateway({
    url: location.origin.replace("http", "ws") + "/ws",
    client: { id: "webchat-ui", mode: "webchat", version: "1", platform: "web" },
    onGap: () => {},
    onState: ({ name }) => name === "ready" && gateway.request("chat.send", params),
    onEvent: (name, { sessionKey, stream, data }) => {
      if (name !== "agent" || sessionKey !== key || stream !== "assistant" || !data.delta) return;
      pre.append(data.delta);
      document.documentElement.scrollTop = pre.scrollHeight;
    },
  });
  gateway.start();
}"""
SWITCH_CHAT = """async ([key, last]) => {
  const started = performance.now();
  location.hash = key;
  return (await bench.shown(last)) - started;
}"""


@dataclass
class Bench:
    browser: Browser
    site: Site
    user: "User"
    sessions: dict[int, tuple[str, str]]  # number of messages -> session key, ID of the last message
    seconds: float = 20
    samples: int = 10
    profile: str = ""

    @contextlib.contextmanager
    def page(self) -> Iterator[Page]:
        """Open a page in a new profile with an empty cache."""
        context = self.browser.new_context(viewport={"width": 1440, "height": 900})
        context.set_default_timeout(120_000)
        self.site.sign_in(context, self.user)
        context.add_init_script(OBSERVE)
        try:
            yield context.new_page()
        finally:
            context.close()

    def open(self, page: Page, key: str, last: str = "") -> Page:
        page.goto(f"{self.site.url}/#{key}")
        expect(page.locator("#connection")).to_have_text("Connected")
        if last:
            expect(page.locator(f"[data-message-id='{last}']")).to_be_visible()
        return page


def send_message(page: Page, message: str) -> None:
    page.get_by_label("Message", exact=True).fill(message)
    page.get_by_label("Message", exact=True).press("Enter")


def loading(bench: Bench) -> Result:
    """Visits to a chat with 200 messages and to a line of plain text, alternating."""
    key, last = bench.sessions[200]
    visits: dict[str, list[Result]] = {"cold": [], "warm": [], "plain": []}
    for _ in range(bench.samples):
        with bench.page() as page:
            visits["cold"].append(_visit(page, f"{bench.site.url}/#{key}", last))
            page.goto("about:blank")
            visits["warm"].append(_visit(page, f"{bench.site.url}/#{key}", last))
        with bench.page() as page:
            visits["plain"].append(_visit(page, bench.site.url + PLAIN))
    result: Result = {name: _summary(each) for name, each in visits.items()}
    for name in ("cold", "warm"):
        result[name]["times_plain"] = round(result[name]["fcp_ms"]["p50"] / result["plain"]["fcp_ms"]["p50"], 2)
    return result


def _visit(page: Page, address: str, last: str = "") -> Result:
    cdp = page.context.new_cdp_session(page)
    cdp.send("Network.enable")
    loaded: list[float] = []
    cdp.on("Network.loadingFinished", lambda event: loaded.append(event["encodedDataLength"]))
    page.goto(address)
    shown = visible_after(page, f"[data-message-id='{last}']") if last else None
    painted = float(page.evaluate("bench.painted")) / 1000
    page.wait_for_load_state("load")
    transferred = [size for size in loaded if size > 0]  # 0 for cached files
    return {"fcp": painted, "shown": shown, "requests": len(transferred), "bytes": sum(transferred)}


def _summary(visits: list[Result]) -> Result:
    return {
        "fcp_ms": milliseconds(visit["fcp"] for visit in visits),
        "last_message_ms": milliseconds(visit["shown"] for visit in visits),
        "requests": max(visit["requests"] for visit in visits),
        "kilobytes": round(max(visit["bytes"] for visit in visits) / 1024),
    }


def streaming(bench: Bench) -> Result:
    """An answer of 100 words per second: in a new chat, at the end of long ones, and appended to a <pre>."""
    result: Result = {"append": _streamed(bench, _append)}
    for messages in (0, 200, 5000):
        result[f"after_{messages}"] = _streamed(bench, _chat(*bench.sessions.get(messages, ("agent:main:new", ""))))
        ratio = result[f"after_{messages}"]["event_ms"] / result["append"]["event_ms"]
        result[f"after_{messages}"]["times_append"] = round(ratio, 2)
    return result


StartAnswer = Callable[[Bench, Page, str], None]


def _append(bench: Bench, page: Page, message: str) -> None:
    page.goto(bench.site.url + PLAIN)
    page.evaluate(APPEND, ["agent:main:append", message])


def _chat(key: str, last: str) -> StartAnswer:
    def start(bench: Bench, page: Page, message: str) -> None:
        bench.open(page, key, last)
        page.wait_for_timeout(1000)  # agents, models and the list are loaded after the first render
        send_message(page, message)

    return start


def _streamed(bench: Bench, start: StartAnswer) -> Result:
    """Measure from the first words to the end, without the cost of sending the message."""
    message = sample_text.build_prompt(int(bench.seconds * TOKENS_PER_SECOND), TOKENS_PER_SECOND)
    with bench.page() as page:
        frames, thread = Frames().watch(page), MainThread(page)
        start(bench, page, message)
        frames.wait(page, "deltas")
        with profiled(thread.cdp, bench.profile):
            deltas, frames_before = frames.deltas, frames.all
            thread.begin()
            frames.wait(page, "ends")
            page.wait_for_timeout(300)  # the last block is rendered after the end of the run
            result = thread.end()
    events = frames.deltas - deltas
    return {
        **result,
        "events": events,
        "frames": frames.all - frames_before,
        "event_ms": round(result["task_ms"] / max(events, 1), 3),
    }


def switching(bench: Bench) -> Result:
    """Switch between two chats with 200 messages."""
    chats = [bench.sessions[200], bench.sessions[201]]
    times = []
    with bench.page() as page:
        bench.open(page, *chats[0])
        for turn in range(1, 2 * bench.samples + 1):
            key, last = chats[turn % 2]
            times.append(float(page.evaluate(SWITCH_CHAT, [key, f"[data-message-id='{last}']"])) / 1000)
            page.wait_for_timeout(50)
    return {"shown_ms": milliseconds(times)}


def memory(bench: Bench) -> Result:
    """The heap of a new page, after 20 answers of 300 words, and after switching to an empty chat."""
    with bench.page() as page:
        frames, thread = Frames().watch(page), MainThread(page)
        bench.open(page, "agent:main:memory")
        page.wait_for_timeout(1000)
        result: Result = {"new": thread.heap()}
        started = time.monotonic()
        for _ in range(20):
            send_message(page, sample_text.build_prompt(300, 1000))
            frames.wait(page, "ends")
        page.wait_for_timeout(1000)
        result["after_20_answers"] = thread.heap()
        page.evaluate("location.hash = 'agent:main:memory-2'")
        expect(page.locator("#welcome")).to_be_visible()
        page.wait_for_timeout(1000)
        result["after_leaving"] = thread.heap()
        result["seconds"] = round(time.monotonic() - started)
    return result


SUITES: dict[str, Callable[[Bench], Result]] = {
    "loading": loading,
    "streaming": streaming,
    "switching": switching,
    "memory": memory,
}
