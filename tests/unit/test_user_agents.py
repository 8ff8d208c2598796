"""Browsers recognized by their User-Agent header."""

import pytest

from clawsite.accounts.sign_in.user_agents import is_handheld, parse_browser, parse_system

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "browser", "system"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "Firefox 128", "Linux"),
        (f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/126.0.0.0 Safari/537.36", "Chrome 126", "Windows"),
        (f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/126.0.0.0 Safari/537.36 Edg/126.0.1.2", "Edge 126", "Windows"),
        (f"Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) {WEBKIT} Chrome/125.0 Safari/537.36 OPR/111.0", "Opera 111", "macOS"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605 (KHTML) Version/17.5 Safari/605.1", "Safari 17", "macOS"),
        ("Mozilla/5.0 (iPhone; like Mac OS X) AppleWebKit/605 Version/17.5 Mobile/15E148 Safari/604.1", "Safari 17", "iPhone"),
        ("Mozilla/5.0 (iPad; like Mac OS X) AppleWebKit/605 CriOS/126.0.1 Mobile/15E148 Safari/604.1", "Chrome 126", "iPad"),
        (f"Mozilla/5.0 (Linux; Android 14; K) {WEBKIT} Chrome/126.0.0.0 Mobile Safari/537.36", "Chrome 126", "Android"),
        (f"Mozilla/5.0 (X11; Linux x86_64) {WEBKIT} HeadlessChrome/126.0.0.0 Safari/537.36", "Chromium 126", "Linux"),
        ("curl/8.5.0", "curl 8", ""),
        ("<script>alert(1)</script>", "", ""),
        ("", "", ""),
    ],
)
def test_browser_and_operating_system_are_recognized(user_agent: str, browser: str, system: str) -> None:
    assert (parse_browser(user_agent), parse_system(user_agent)) == (browser, system)


def test_handheld_and_desktop_are_distinguished() -> None:
    assert is_handheld("Mozilla/5.0 (Linux; Android 14; K)")
    assert not is_handheld("Mozilla/5.0 (X11; Linux x86_64; rv:128.0)")
