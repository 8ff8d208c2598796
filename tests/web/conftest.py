"""Pages through Django's test client and in a real browser that reports content policy violations."""

import shutil
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer

from clawsite.accounts.models import FailedSignIns, FirstAdminLink, KnownAddress, User
from tests.harness.stack import Stack
from tests.web.chat_page import TIMEOUT_MS, OpenChat, open_page, sign_in
from tests.web.fake_gateway import FakeGateway
from tests.web.sample_data import SIZES

CHROMIUM_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(autouse=True)
def plain_settings(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the real one takes a quarter of a second
    # Unhashed static files: the hashed copies exist only after collectstatic.
    settings.STORAGES = {**settings.STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
    settings.WHITENOISE_AUTOREFRESH = settings.WHITENOISE_USE_FINDERS = True


@pytest.fixture(autouse=True)
def _reset_throttling(database: None) -> None:
    """All tests use one address, so the failed sign-ins of one must not count in the next."""
    FailedSignIns.objects.all().delete()
    KnownAddress.objects.all().delete()
    FirstAdminLink.objects.all().delete()


@pytest.fixture
def site(database: None) -> Iterator[str]:
    """URL of a running server with our pages, but without the gateway."""
    server = LiveServer("127.0.0.1")
    yield server.url
    server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # One per module, not per session: async tests can't run beside Playwright's event loop.
    # The headless shell is preferred: a new page takes half the time.
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def size() -> str:
    """Size of the browser window. Tests marked with chat_page.on_desk_and_phone run with both."""
    return "desk"


@pytest.fixture
def page(browser: Browser, size: str) -> Iterator[Page]:
    """A page in a new browser profile. The test fails if a page violates its content policy or a script fails."""
    context = browser.new_context(**SIZES[size])
    context.set_default_timeout(10_000)
    page = context.new_page()
    faults: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text or "Permissions-Policy" in message.text:
            faults.append(message.text)

    page.on("console", on_console)
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    context.close()
    assert faults == []


@pytest.fixture
def open_chat(live: Stack, user: User, page: Page) -> OpenChat:
    """Open a chat on a running installation: open_chat(), or open_chat("agent:demo:mine", another_page)."""

    def opened(key: str = "", on: Page = page, agent: str = "demo") -> Page:
        on.context.set_default_timeout(TIMEOUT_MS)
        live.sign_in(on, user)
        on.goto(f"{live.url}/#{key or f'agent:{agent}:{uuid.uuid4().hex[:8]}'}")
        expect(on.locator("#connection")).to_have_text("Connected", timeout=TIMEOUT_MS)
        return on

    return opened


@pytest.fixture
def gateway(page: Page) -> FakeGateway:
    return FakeGateway(page)


@pytest.fixture
def chat(page: Page, gateway: FakeGateway, site: str, user: User) -> Page:
    """A signed-in page, not opened yet."""
    sign_in(page, site, user)
    return page


@pytest.fixture
def opened(chat: Page, site: str) -> Page:
    return open_page(chat, site)


@pytest.fixture
def stored(chat: Page, gateway: FakeGateway, site: str) -> Callable[..., Page]:
    """Open the chat page with these messages in the history."""

    def show(messages: list[dict[str, Any]], **more: Any) -> Page:
        gateway.answers["chat.history"] = lambda params: gateway.history(messages, **more)
        return open_page(chat, site)

    return show


@pytest.fixture
def patience() -> Iterator[None]:
    """For tests whose pages load slowly."""
    expect.set_options(timeout=20_000)  # for a loaded machine
    yield
    expect.set_options(timeout=None)


@pytest.fixture
def ada(make_user: Callable[..., User]) -> User:
    return make_user(name="ada")
