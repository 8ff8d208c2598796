"""What kind of browser a User-Agent header speaks of. Pure, and only for people to recognise their own: anybody can send any."""

import re

# The first that matches counts: Edge and Opera also say Chrome, and Chrome also says Safari.
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
    """Such as "Firefox 128"; empty when it is none we know."""
    for name, pattern in _BROWSERS:
        if found := re.search(pattern, user_agent):
            return f"{name} {found[1]}"
    return ""


def parse_system(user_agent: str) -> str:
    """Such as "Windows"; empty when it is none we know."""
    return next((name for name, pattern in _SYSTEMS if re.search(pattern, user_agent)), "")


def is_handheld(user_agent: str) -> bool:
    return parse_system(user_agent) in ("iPhone", "iPad", "Android")
