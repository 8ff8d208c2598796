"""A temporary installation with a browser and access to its database, for benchmarks of pages and for screenshots.

Django is set up for its database, so there is one per process.
"""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from bench.installation import CLEARED, Installation

if TYPE_CHECKING:
    from clawsite.accounts.models import User

Value = TypeVar("Value")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    # Otherwise heap sizes are rounded and background pages are throttled.
    "--enable-precise-memory-info",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
]


class Site:
    """Use as `with running_site() as site:`. This process creates rows with the project's services."""

    def __init__(self, installation: Installation, pids: list[int], helper_pids: list[int]) -> None:
        self.installation = installation
        self.pids, self.helper_pids = pids, helper_pids
        self.url = installation.urls[0].replace("ws", "http", 1).removesuffix("/ws")
        self._cookies: dict[int, str] = {}

    def account(self, name: str, *groups: str, **fields: Any) -> "User":
        from django.contrib.auth.models import Group

        from clawsite.accounts.models import User

        user = User(username=name, **fields)
        user.set_unusable_password()
        user.save()
        user.groups.add(*Group.objects.filter(name__in=groups))
        return user

    def cookie_of(self, user: "User") -> str:
        """Return the session cookie of a signed-in browser, the same one each time."""
        from django.conf import settings
        from django.test import Client

        if user.pk not in self._cookies:
            client = Client()
            client.force_login(user)
            self._cookies[user.pk] = client.cookies[settings.SESSION_COOKIE_NAME].value
        return self._cookies[user.pk]

    def sign_in(self, context: BrowserContext, user: "User") -> None:
        from django.conf import settings

        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": self.cookie_of(user), "url": self.url}])


@contextlib.contextmanager
def running_site(**options: Any) -> Iterator[Site]:
    """Start Clawsite with a fake model and wait until it is ready. Options are those of `Installation`."""
    installation = Installation(**options)
    try:
        helpers = installation.open()
        _load_django(installation)
        pids = installation.launcher.start()
        try:
            site = Site(installation, pids, helpers)
            until(lambda: _is_ready(f"{site.url}/readyz"), "the site to be ready")
            yield site
        finally:
            installation.launcher.stop()
    except BaseException:
        if installation.log.exists():
            sys.stderr.write(installation.log.read_text(errors="replace")[-4000:])
        raise
    finally:
        installation.close()


@contextlib.contextmanager
def running_browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("Chromium is not installed (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def until(check: Callable[[], Value], what: str, seconds: float = 60) -> Value:
    """Call `check` until it returns a true value, and return that."""
    give_up = time.monotonic() + seconds
    while not (value := check()):
        if time.monotonic() > give_up:
            raise TimeoutError(f"timed out after {seconds:.0f} s waiting for {what}")
        time.sleep(0.05)
    return value


def _load_django(installation: Installation) -> None:
    import django

    for name in [name for name in os.environ if name.startswith(CLEARED)]:
        del os.environ[name]
    os.environ.update({name: value for name, value in installation.env.items() if name.startswith(CLEARED)})
    os.environ["DJANGO_SETTINGS_MODULE"] = "clawsite.settings"
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright's sync API runs a loop in this thread
    django.setup()


def _is_ready(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False
