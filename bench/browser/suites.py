"""The measurements. Each has something simple beside it, from the same server, in the same browser and minute."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from playwright.sync_api import Browser, Page, expect

from bench.browser.page_metrics import OBSERVE, Frames, Thread, visible_after
from bench.browser.profile import profiled
from bench.gateway.figures import Result, milliseconds
from bench.site import Site

if TYPE_CHECKING:
    from clawsite.accounts.models import User

PLAIN = "/healthz"  # a line of text, without a stylesheet or a script
TOKENS_PER_SECOND = 100

# Appends the text of the same events to a <pre>, and does nothing else: what a stream costs at least.
APPEND = """async ([key, message]) => {
  const { Gateway, randomId } = await import("/static/js/shared/gateway.js");
  const pre = document.createElement("pre");
  document.body.replaceChildren(pre);
  const question = { sessionKey: key, message, idempotencyKey: randomId() };
  const gateway = new Gateway({
    url: location.origin.replace("http", "ws") + "/ws",
    client: { id: "webchat-ui", mode: "webchat", version: "1", platform: "web" },
    onGap: () => {},
    onState: ({ name }) => name === "ready" && gateway.request("chat.send", question),
    onEvent: (name, { sessionKey, stream, data }) => {
      if (name !== "agent" || sessionKey !== key || stream !== "assistant" || !data.delta) return;
      pre.append(data.delta);
      document.documentElement.scrollTop = pre.scrollHeight;
    },
  });
  gateway.start();
}"""
CHANGE = """async ([key, last]) => {
  const began = performance.now();
  location.hash = key;
  return (await bench.shown(last)) - began;
}"""


@dataclass
class Bench:
    browser: Browser
    site: Site
    user: "User"
    sessions: dict[int, tuple[str, str]]  # number of messages -> key, id of the last one
    seconds: float = 20
    samples: int = 10
    profile: str = ""

    @contextlib.contextmanager
    def page(self) -> Iterator[Page]:
        """In a profile of its own, with an empty cache."""
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


def ask(page: Page, message: str) -> None:
    page.get_by_label("Message", exact=True).fill(message)
    page.get_by_label("Message", exact=True).press("Enter")


def loading(bench: Bench) -> Result:
    """A visit to a conversation of 200 messages, and one to a line of plain text, in turn."""
    key, last = bench.sessions[200]
    seen: dict[str, list[Result]] = {"cold": [], "warm": [], "plain": []}
    for _ in range(bench.samples):
        with bench.page() as page:
            seen["cold"].append(_visit(page, f"{bench.site.url}/#{key}", last))
            page.goto("about:blank")
            seen["warm"].append(_visit(page, f"{bench.site.url}/#{key}", last))
        with bench.page() as page:
            seen["plain"].append(_visit(page, bench.site.url + PLAIN))
    result: Result = {name: _summary(visits) for name, visits in seen.items()}
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
    over = [size for size in loaded if size > 0]  # from the cache: nothing
    return {"fcp": painted, "shown": shown, "requests": len(over), "bytes": sum(over)}


def _summary(visits: list[Result]) -> Result:
    return {
        "fcp_ms": milliseconds(visit["fcp"] for visit in visits),
        "last_message_ms": milliseconds(visit["shown"] for visit in visits),
        "requests": max(visit["requests"] for visit in visits),
        "kilobytes": round(max(visit["bytes"] for visit in visits) / 1024),
    }


def streaming(bench: Bench) -> Result:
    """An answer of 100 words a second: in a new conversation, at the end of long ones, and appended to a <pre>."""
    result: Result = {"append": _streamed(bench, _append)}
    for messages in (0, 200, 5000):
        result[f"after_{messages}"] = _streamed(bench, _chat(*bench.sessions.get(messages, ("agent:main:new", ""))))
        beside = result[f"after_{messages}"]["event_ms"] / result["append"]["event_ms"]
        result[f"after_{messages}"]["times_append"] = round(beside, 2)
    return result


Play = Callable[[Bench, Page, str], None]  # asks for the answer


def _append(bench: Bench, page: Page, message: str) -> None:
    page.goto(bench.site.url + PLAIN)
    page.evaluate(APPEND, ["agent:main:append", message])


def _chat(key: str, last: str) -> Play:
    def play(bench: Bench, page: Page, message: str) -> None:
        bench.open(page, key, last)
        page.wait_for_timeout(1000)  # what comes after the first sight: agents, models, the list
        ask(page, message)

    return play


def _streamed(bench: Bench, play: Play) -> Result:
    """From the first words to the end. The question's own cost is left out, as is what the page does before."""
    message = words.question(int(bench.seconds * TOKENS_PER_SECOND), TOKENS_PER_SECOND)
    with bench.page() as page:
        frames, thread = Frames().of(page), Thread(page)
        play(bench, page, message)
        frames.wait(page, "deltas")
        with profiled(thread.cdp, bench.profile):
            deltas, frames_before = frames.deltas, frames.all
            thread.begin()
            frames.wait(page, "ends")
            page.wait_for_timeout(300)  # the last block is rendered after the end
            result = thread.end()
    events = frames.deltas - deltas
    return {
        **result,
        "events": events,
        "frames": frames.all - frames_before,
        "event_ms": round(result["task_ms"] / max(events, 1), 3),
    }


def switching(bench: Bench) -> Result:
    """From one conversation of 200 messages to another and back."""
    places = [bench.sessions[200], bench.sessions[201]]
    took = []
    with bench.page() as page:
        bench.open(page, *places[0])
        for turn in range(1, 2 * bench.samples + 1):
            key, last = places[turn % 2]
            took.append(float(page.evaluate(CHANGE, [key, f"[data-message-id='{last}']"])) / 1000)
            page.wait_for_timeout(50)
    return {"shown_ms": milliseconds(took)}


def memory(bench: Bench) -> Result:
    """The page's heap when it is new, after 20 answers of 300 words, and after going on to an empty conversation."""
    with bench.page() as page:
        frames, thread = Frames().of(page), Thread(page)
        bench.open(page, "agent:main:memory")
        page.wait_for_timeout(1000)
        result: Result = {"new": thread.heap()}
        began = time.monotonic()
        for _ in range(20):
            ask(page, words.question(300, 1000))
            frames.wait(page, "ends")
        page.wait_for_timeout(1000)
        result["after_20_answers"] = thread.heap()
        page.evaluate("location.hash = 'agent:main:memory-2'")
        expect(page.locator("#welcome")).to_be_visible()
        page.wait_for_timeout(1000)
        result["after_leaving"] = thread.heap()
        result["seconds"] = round(time.monotonic() - began)
    return result


SUITES: dict[str, Callable[[Bench], Result]] = {
    "loading": loading,
    "streaming": streaming,
    "switching": switching,
    "memory": memory,
}
