"""Take the screenshots of the documentation, with a real server, worker and browser and a scripted model.

    python -m bench.screenshots                          all of the documentation, into docs/images (about a minute)
    python -m bench.screenshots chat-light dashboard     only these
    python -m bench.screenshots --out /tmp/pictures      into another directory, for review

Runs on 127.0.0.1 with a temporary state directory. The texts are the same each time, the times are not.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from bench.installation import PROJECT
from bench.screenshots import sample_data
from bench.screenshots.sample_data import ASKING, KEY, SampleData
from bench.site import Site, running_browser, running_site

WIDE, LOW, TALL, LONG, PHONE = (1440, 900), (1440, 480), (1440, 1320), (1280, 1110), (390, 844)
IMAGES = PROJECT / "docs" / "images"


@dataclass(frozen=True, slots=True)
class Screenshot:
    path: Callable[[SampleData], str]
    ready: Callable[[Page], None] = lambda page: None  # waits for content and opens parts of the page
    dark: bool = False
    size: tuple[int, int] = WIDE
    only: str = ""  # selector of the part to capture
    signed_in: bool = True


def at(path: str) -> Callable[[SampleData], str]:
    return lambda data: path


def chat(page: Page) -> None:
    expect(page.locator("#connection")).to_have_text("Connected")
    expect(page.locator(".message.assistant pre .k").first).to_be_visible()
    expect(page.locator("#session-list [aria-current=page]")).to_be_attached()
    page.evaluate("document.activeElement.blur()")


def details(page: Page) -> None:
    chat(page)
    page.locator("#toggle-details").click()
    expect(page.locator("#timeline li").last).to_be_visible()


def search(page: Page) -> None:
    chat(page)
    page.get_by_placeholder("Search").first.fill("orders")
    expect(page.locator("#sessions mark").first).to_be_visible()


def palette(page: Page) -> None:
    chat(page)
    page.keyboard.press("Control+k")
    expect(page.locator("#palette [role=option]").first).to_be_visible()


def session_list(page: Page) -> None:
    chat(page)
    page.locator("#toggle-sessions").click()


def timeline(page: Page) -> None:
    expect(page.locator("#recorder")).to_be_visible()


def first_error(page: Page) -> None:
    timeline(page)
    page.get_by_role("button", name="First error").click()


def agent_form(page: Page) -> None:
    page.get_by_text("Tools", exact=True).first.scroll_into_view_if_needed()


def tokens(page: Page) -> None:
    page.locator("#tokens").evaluate("part => window.scrollTo(0, part.offsetTop - 80)")


def table(page: Page) -> None:
    expect(page.locator(".matrix tbody tr").first).to_be_visible()


def summary(page: Page) -> None:
    page.locator("#summary").evaluate("part => window.scrollTo(0, part.offsetTop - 80)")


def approval_queue(page: Page) -> None:
    expect(page.locator("#queue-state")).to_contain_text("live")
    expect(page.locator(".question").first.get_by_role("button", name="Approve once")).to_be_enabled()


def pending_approval(page: Page) -> None:
    expect(page.locator("#connection")).to_have_text("Connected")
    page.locator(".in-chat .command").scroll_into_view_if_needed()
    expect(page.locator(".in-chat").get_by_role("button", name="Approve once")).to_be_enabled()
    page.evaluate("document.activeElement.blur()")


def draft(page: Page) -> None:
    page.get_by_label("Deny").fill("edit\ngroup:runtime")
    page.get_by_label("Also allow").fill("web_search")
    expect(page.locator("tr.flipped").first).to_be_visible()
    page.get_by_role("button", name="Last 30 days").click()
    expect(page.locator("#replayed")).to_be_visible()


CHAT = at(f"/#{KEY}")
HELPDESK_TOOLS = "/policies/?agent=helpdesk&model=openai/gpt-5-mini"
UNAVAILABLE_TOOLS = (
    "/policies/?agent=main&model=deepseek/deepseek-chat"  # a model without image input, so that some tools are unavailable
)
DOCUMENTED: dict[str, Screenshot] = {
    "chat-light": Screenshot(CHAT, chat, size=LONG),
    "chat-dark": Screenshot(CHAT, chat, size=LONG, dark=True),
    "chat-phone": Screenshot(CHAT, chat, size=PHONE),
    "chat-details": Screenshot(CHAT, details),
    "search": Screenshot(CHAT, search),
    "palette": Screenshot(CHAT, palette),
    "admin-agent": Screenshot(at("/admin/agents/agent/helpdesk/change/")),
    "admin-agents": Screenshot(at("/admin/agents/agent/"), size=LOW),
    "admin-runs": Screenshot(at("/admin/sessions_app/run/")),
    "dashboard": Screenshot(at("/admin/"), size=TALL),
    "run": Screenshot(lambda data: f"/runs/{data.denied_run}/", first_error, size=TALL),
    "policies": Screenshot(at(HELPDESK_TOOLS), table, size=TALL),
    "policies-draft": Screenshot(at(f"{HELPDESK_TOOLS}&scope=agent&for_agent=helpdesk"), draft, size=TALL),
    "policy-call": Screenshot(lambda data: f"/policies/calls/{data.denied_call}/", size=LONG),
    "policy-history": Screenshot(at("/policies/history/"), size=LONG),
    "approvals": Screenshot(at("/approvals/"), approval_queue, size=(1280, 960)),
    "approval-in-chat": Screenshot(at(f"/#{ASKING}"), pending_approval, size=(1280, 960)),
    "account": Screenshot(at("/account/"), tokens, size=(1280, 760)),
    "sign-in": Screenshot(at("/sign-in/"), only="main", signed_in=False, size=(960, 640)),
}
# Only taken on request, for review.
OTHERS: dict[str, Screenshot] = {
    "chat-phone-dark": Screenshot(CHAT, chat, size=PHONE, dark=True),
    "sessions-phone": Screenshot(CHAT, session_list, size=PHONE),
    "details-phone": Screenshot(CHAT, details, size=PHONE),
    "admin-tools": Screenshot(at("/admin/agents/agent/helpdesk/change/"), agent_form),
    "admin-agent-dark": Screenshot(at("/admin/agents/agent/helpdesk/change/"), dark=True),
    "admin-users": Screenshot(at("/admin/accounts/user/")),
    "admin-runs-dark": Screenshot(at("/admin/sessions_app/run/"), dark=True),
    "admin-runs-phone": Screenshot(at("/admin/sessions_app/run/"), size=PHONE),
    "dashboard-dark": Screenshot(at("/admin/"), size=TALL, dark=True),
    "dashboard-phone": Screenshot(at("/admin/"), size=PHONE),
    "run-dark": Screenshot(lambda data: f"/runs/{data.denied_run}/", timeline, dark=True),
    "run-phone": Screenshot(lambda data: f"/runs/{data.denied_run}/", timeline, size=PHONE),
    "run-failed": Screenshot(lambda data: f"/runs/{data.failed_run}/", timeline),
    "runs": Screenshot(at("/runs/")),
    "runs-phone": Screenshot(at("/runs/"), size=PHONE),
    "policies-dark": Screenshot(at(HELPDESK_TOOLS), table, size=TALL, dark=True),
    "policies-missing": Screenshot(at(UNAVAILABLE_TOOLS), table),
    "policies-missing-dark": Screenshot(at(UNAVAILABLE_TOOLS), table, dark=True),
    "policies-missing-phone": Screenshot(at(f"{UNAVAILABLE_TOOLS}&show=missing"), summary, size=PHONE),
    "policies-missing-phone-dark": Screenshot(at(f"{UNAVAILABLE_TOOLS}&show=missing"), summary, size=PHONE, dark=True),
    "policies-draft-dark": Screenshot(at(f"{HELPDESK_TOOLS}&scope=agent&for_agent=helpdesk"), draft, size=TALL, dark=True),
    "policies-phone": Screenshot(at(f"{HELPDESK_TOOLS}&tool=exec"), size=PHONE),
    "policies-draft-phone": Screenshot(at(f"{HELPDESK_TOOLS}&scope=agent&for_agent=helpdesk"), size=PHONE),
    "policy-call-phone": Screenshot(lambda data: f"/policies/calls/{data.denied_call}/", size=PHONE),
    "policy-tests": Screenshot(at("/policies/tests/"), size=LOW),
    "policy-test-new": Screenshot(at("/policies/tests/new/")),
    "policy-version": Screenshot(at("/policies/history/3/")),
    "admin-policy": Screenshot(at("/admin/tools_app/toolpolicy/add/")),
    "approvals-dark": Screenshot(at("/approvals/"), approval_queue, size=(1280, 960), dark=True),
    "approvals-phone": Screenshot(at("/approvals/"), approval_queue, size=PHONE),
    "approval-in-chat-phone": Screenshot(at(f"/#{ASKING}"), pending_approval, size=PHONE),
    "account-dark": Screenshot(at("/account/"), dark=True),
    "account-phone": Screenshot(at("/account/"), size=PHONE),
    "sign-in-dark": Screenshot(at("/sign-in/"), signed_in=False, size=(960, 640), dark=True),
}
ALL = DOCUMENTED | OTHERS


def take(browser: Browser, site: Site, data: SampleData, name: str, folder: Path) -> None:
    screenshot = ALL[name]
    width, height = screenshot.size
    phone = screenshot.size == PHONE
    context = browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=2 if phone else 1,
        has_touch=phone,
        is_mobile=phone,
        color_scheme="dark" if screenshot.dark else "light",
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    try:
        if screenshot.signed_in:
            site.sign_in(context, data.ada)
        page = _open(context.new_page(), site.url + screenshot.path(data))
        screenshot.ready(page)
        page.wait_for_timeout(300)  # fonts and transitions, which can't be awaited
        part = page.locator(screenshot.only) if screenshot.only else page
        part.screenshot(path=folder / f"{name}.png")
    finally:
        context.close()


def _open(page: Page, address: str) -> Page:
    page.goto(address)
    page.wait_for_load_state("load")
    return page


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench.screenshots", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = f"{', '.join(DOCUMENTED)} (default: all of these); for review: {', '.join(OTHERS)}"
    parser.add_argument("name", nargs="*", help=names)
    parser.add_argument("--out", type=Path, default=IMAGES, help="output directory (default docs/images)")
    options = parser.parse_args()
    if unknown := [name for name in options.name if name not in ALL]:
        parser.error(f"unknown screenshot: {', '.join(unknown)}; choose from {', '.join(ALL)}")
    options.out.mkdir(parents=True, exist_ok=True)
    with running_site(program="bench.screenshots.model", model="openai/gpt-5") as site, running_browser() as browser:
        data = sample_data.prepare(site)
        other_tab = browser.new_context()  # so that the dashboard shows a connected client
        site.sign_in(other_tab, data.ada)
        chat(_open(other_tab.new_page(), site.url + CHAT(data)))
        for name in options.name or DOCUMENTED:
            take(browser, site, data, name, options.out)
            size = (options.out / f"{name}.png").stat().st_size
            print(f"{name}.png  {size / 1024:.0f} KB", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
