"""Parse the browser and system from a User-Agent header. Pure. Only helps users recognize their browsers: it can be forged."""

import re

# The first match wins: Edge and Opera also contain Chrome, and Chrome also contains Safari.
_BROWSERS = (
    ("Edge", r"\bEdg(?:e|A|iOS)?/(\d+)"),
    ("Opera", r"\bOPR/(\d+)"),
    ("Samsung Internet", r"\bSamsungBrowser/(\d+)"),
    ("Firefox", r"\b(?:Firefox|FxiOS)/(\d+)"),
    ("Chromium", r"\b(?:Chromium|HeadlessChrome)/(\d+)"),
    ("Chrome", r"\b(?:Chrome|CriOS)/(\d+)"),
    ("Safari", r"\bVersion/(\d+)\S* (?:Mobile/\S+ )?Safari/"),
    ("curl", r"^curl/(\d+)"),
)
_SYSTEMS = (
    ("iPhone", r"\biPhone\b"),
    ("iPad", r"\biPad\b"),
    ("Android", r"\bAndroid\b"),
    ("ChromeOS", r"\bCrOS\b"),
    ("Windows", r"\bWindows\b"),
    ("macOS", r"\bMacintosh\b"),
    ("Linux", r"\bLinux\b"),
)


def parse_browser(user_agent: str) -> str:
    """Return for example "Firefox 128"; empty if unknown."""
    for name, pattern in _BROWSERS:
        if match := re.search(pattern, user_agent):
            return f"{name} {match[1]}"
    return ""


def parse_system(user_agent: str) -> str:
    """Return for example "Windows"; empty if unknown."""
    return next((name for name, pattern in _SYSTEMS if re.search(pattern, user_agent)), "")


def is_handheld(user_agent: str) -> bool:
    return parse_system(user_agent) in ("iPhone", "iPad", "Android")
