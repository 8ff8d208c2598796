"""The pictures of the documentation, taken from the real thing: server, worker, a model that follows a story, a browser.

    python -m bench.screenshots                          those of the documentation, into docs/images (about a minute)
    python -m bench.screenshots chat-light dashboard     some of them
    python -m bench.screenshots --out /tmp/pictures      to look at before they replace the others

Everything happens on 127.0.0.1, in a temporary state directory. What is said is the same each time; moments are not.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from bench.installation import PROJECT
from bench.screenshots.sample_data import ASKING, KEY, Scene
from bench.site import Site, running_browser, running_site

WIDE, LOW, TALL, LONG, PHONE = (1440, 900), (1440, 480), (1440, 1320), (1280, 1110), (390, 844)
IMAGES = PROJECT / "docs" / "images"


@dataclass(frozen=True, slots=True)
class Picture:
    path: Callable[[Scene], str]
    ready: Callable[[Page], None] = lambda page: None  # waits for what must be seen, opens what must be open
    dark: bool = False
    size: tuple[int, int] = WIDE
    only: str = ""  # a part of the page
    signed_in: bool = True


def at(path: str) -> Callable[[Scene], str]:
    return lambda scene: path


def conversation(page: Page) -> None:
    expect(page.locator("#connection")).to_have_text("Connected")
    expect(page.locator(".message.assistant pre .k").first).to_be_visible()
    expect(page.locator("#session-list [aria-current=page]")).to_be_attached()
    page.evaluate("document.activeElement.blur()")


def details(page: Page) -> None:
    conversation(page)
    page.locator("#toggle-details").click()
    expect(page.locator("#timeline li").last).to_be_visible()


def search(page: Page) -> None:
    conversation(page)
    page.get_by_placeholder("Search").first.fill("orders")
    expect(page.locator("#sessions mark").first).to_be_visible()


def palette(page: Page) -> None:
    conversation(page)
    page.keyboard.press("Control+k")
    expect(page.locator("#palette [role=option]").first).to_be_visible()


def sessions_on_a_phone(page: Page) -> None:
    conversation(page)
    page.locator("#toggle-sessions").click()


def recorder(page: Page) -> None:
    expect(page.locator("#recorder")).to_be_visible()


def first_error(page: Page) -> None:
    recorder(page)
    page.get_by_role("button", name="First error").click()


def agent_form(page: Page) -> None:
    page.get_by_text("Tools", exact=True).first.scroll_into_view_if_needed()


def tokens(page: Page) -> None:
    page.locator("#tokens").evaluate("part => window.scrollTo(0, part.offsetTop - 80)")


def table(page: Page) -> None:
    expect(page.locator(".matrix tbody tr").first).to_be_visible()


def folds(page: Page) -> None:
    page.locator("#summary").evaluate("part => window.scrollTo(0, part.offsetTop - 80)")


def questions(page: Page) -> None:
    expect(page.locator("#queue-state")).to_contain_text("live")
    expect(page.locator(".question").first.get_by_role("button", name="Approve once")).to_be_enabled()


def asking(page: Page) -> None:
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
ASKED = "/policies/?agent=helpdesk&model=openai/gpt-5-mini"
MISSING = "/policies/?agent=main&model=deepseek/deepseek-chat"  # a model that cannot see, so that something is not offered
PICTURES: dict[str, Picture] = {
    "chat-light": Picture(CHAT, conversation, size=LONG),
    "chat-dark": Picture(CHAT, conversation, size=LONG, dark=True),
    "chat-phone": Picture(CHAT, conversation, size=PHONE),
    "chat-details": Picture(CHAT, details),
    "search": Picture(CHAT, search),
    "palette": Picture(CHAT, palette),
    "admin-agent": Picture(at("/admin/agents/agent/helpdesk/change/")),
    "admin-agents": Picture(at("/admin/agents/agent/"), size=LOW),
    "admin-runs": Picture(at("/admin/sessions_app/run/")),
    "dashboard": Picture(at("/admin/"), size=TALL),
    "run": Picture(lambda scene: f"/runs/{scene.refused_run}/", first_error, size=TALL),
    "policies": Picture(at(ASKED), table, size=TALL),
    "policies-draft": Picture(at(f"{ASKED}&scope=agent&for_agent=helpdesk"), draft, size=TALL),
    "policy-call": Picture(lambda scene: f"/policies/calls/{scene.refused_call}/", size=LONG),
    "policy-history": Picture(at("/policies/history/"), size=LONG),
    "approvals": Picture(at("/approvals/"), questions, size=(1280, 960)),
    "approval-in-chat": Picture(at(f"/#{ASKING}"), asking, size=(1280, 960)),
    "account": Picture(at("/account/"), tokens, size=(1280, 760)),
    "sign-in": Picture(at("/sign-in/"), only="main", signed_in=False, size=(960, 640)),
}
# Taken only when they are asked for: to look at, not for the documentation.
OTHERS: dict[str, Picture] = {
    "chat-phone-dark": Picture(CHAT, conversation, size=PHONE, dark=True),
    "sessions-phone": Picture(CHAT, sessions_on_a_phone, size=PHONE),
    "details-phone": Picture(CHAT, details, size=PHONE),
    "admin-tools": Picture(at("/admin/agents/agent/helpdesk/change/"), agent_form),
    "admin-agent-dark": Picture(at("/admin/agents/agent/helpdesk/change/"), dark=True),
    "admin-users": Picture(at("/admin/accounts/user/")),
    "admin-runs-dark": Picture(at("/admin/sessions_app/run/"), dark=True),
    "admin-runs-phone": Picture(at("/admin/sessions_app/run/"), size=PHONE),
    "dashboard-dark": Picture(at("/admin/"), size=TALL, dark=True),
    "dashboard-phone": Picture(at("/admin/"), size=PHONE),
    "run-dark": Picture(lambda scene: f"/runs/{scene.refused_run}/", recorder, dark=True),
    "run-phone": Picture(lambda scene: f"/runs/{scene.refused_run}/", recorder, size=PHONE),
    "run-failed": Picture(lambda scene: f"/runs/{scene.failed_run}/", recorder),
    "runs": Picture(at("/runs/")),
    "runs-phone": Picture(at("/runs/"), size=PHONE),
    "policies-dark": Picture(at(ASKED), table, size=TALL, dark=True),
    "policies-missing": Picture(at(MISSING), table),
    "policies-missing-dark": Picture(at(MISSING), table, dark=True),
    "policies-missing-phone": Picture(at(f"{MISSING}&show=missing"), folds, size=PHONE),
    "policies-missing-phone-dark": Picture(at(f"{MISSING}&show=missing"), folds, size=PHONE, dark=True),
    "policies-draft-dark": Picture(at(f"{ASKED}&scope=agent&for_agent=helpdesk"), draft, size=TALL, dark=True),
    "policies-phone": Picture(at(f"{ASKED}&tool=exec"), size=PHONE),
    "policies-draft-phone": Picture(at(f"{ASKED}&scope=agent&for_agent=helpdesk"), size=PHONE),
    "policy-call-phone": Picture(lambda scene: f"/policies/calls/{scene.refused_call}/", size=PHONE),
    "policy-tests": Picture(at("/policies/tests/"), size=LOW),
    "policy-test-new": Picture(at("/policies/tests/new/")),
    "policy-version": Picture(at("/policies/history/3/")),
    "admin-policy": Picture(at("/admin/tools_app/toolpolicy/add/")),
    "approvals-dark": Picture(at("/approvals/"), questions, size=(1280, 960), dark=True),
    "approvals-phone": Picture(at("/approvals/"), questions, size=PHONE),
    "approval-in-chat-phone": Picture(at(f"/#{ASKING}"), asking, size=PHONE),
    "account-dark": Picture(at("/account/"), dark=True),
    "account-phone": Picture(at("/account/"), size=PHONE),
    "sign-in-dark": Picture(at("/sign-in/"), signed_in=False, size=(960, 640), dark=True),
}
ALL = PICTURES | OTHERS


def take(browser: Browser, site: Site, scene: Scene, name: str, folder: Path) -> None:
    picture = ALL[name]
    width, height = picture.size
    phone = picture.size == PHONE
    context = browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=2 if phone else 1,
        has_touch=phone,
        is_mobile=phone,
        color_scheme="dark" if picture.dark else "light",
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    try:
        if picture.signed_in:
            site.sign_in(context, scene.ada)
        page = _opened(context.new_page(), site.url + picture.path(scene))
        picture.ready(page)
        page.wait_for_timeout(300)  # fonts and the last transition; nothing here can be awaited
        part = page.locator(picture.only) if picture.only else page
        part.screenshot(path=folder / f"{name}.png")
    finally:
        context.close()


def _opened(page: Page, address: str) -> Page:
    page.goto(address)
    page.wait_for_load_state("load")
    return page


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench.screenshots", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    more = f"{', '.join(PICTURES)} (default: all these); to look at: {', '.join(OTHERS)}"
    parser.add_argument("picture", nargs="*", help=more)
    parser.add_argument("--out", type=Path, default=IMAGES, help="directory for the pictures (default docs/images)")
    given = parser.parse_args()
    if unknown := [name for name in given.picture if name not in ALL]:
        parser.error(f"there is no picture {', '.join(unknown)}; choose from {', '.join(ALL)}")
    given.out.mkdir(parents=True, exist_ok=True)
    with running_site(program="bench.screenshots.model", model="openai/gpt-5") as site, running_browser() as browser:
        scene = stage.prepare(site)
        onlooker = browser.new_context()  # somebody is connected while the dashboard is pictured
        site.sign_in(onlooker, scene.ada)
        conversation(_opened(onlooker.new_page(), site.url + CHAT(scene)))
        for name in given.picture or PICTURES:
            take(browser, site, scene, name, given.out)
            size = (given.out / f"{name}.png").stat().st_size
            print(f"{name}.png  {size / 1024:.0f} KB", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
