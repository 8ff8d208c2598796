"""Check a page with axe-core, in light and dark mode. The published library is in vendor/axe."""

import warnings
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Page

HERE = Path(__file__).parent
AXE = (HERE / "vendor/axe/axe.min.js").read_text()
RUN_AXE = (HERE / "axe_look.js").read_text()
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
FAILING_IMPACTS = ("serious", "critical")
ALL_RULES = {"runOnly": {"type": "tag", "values": TAGS}, "rules": {"target-size": {"enabled": True}}}
COLOR_RULES = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}  # the rules that depend on colors

COLOR_SCHEMES: list[tuple[Literal["light", "dark"], dict[str, Any]]] = [("light", ALL_RULES), ("dark", COLOR_RULES)]


def find_violations(page: Page, options: dict[str, Any] = ALL_RULES) -> list[dict[str, Any]]:
    """Return the violated rules of the current page, each with its elements."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    broken: list[dict[str, Any]] = page.evaluate(RUN_AXE, options)
    return broken


def check_accessibility(page: Page, where: str, faults: list[str]) -> None:
    """Add serious violations to `faults` and warn about the others: all rules in light mode, color rules in dark mode."""
    for scheme, options in COLOR_SCHEMES:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for broken in find_violations(page, options):
            message = describe_violation(f"{where}, {scheme}", broken)
            if broken["impact"] in FAILING_IMPACTS:
                faults.append(message)
            else:
                warnings.warn(message, stacklevel=2)


def describe_violation(where: str, broken: dict[str, Any]) -> str:
    places = "".join(f"\n    {node['where']}\n      {node['html']}\n      {node['why']}" for node in broken["nodes"][:6])
    return f"{where}: {broken['id']} ({broken['impact']}): {broken['help']}, {len(broken['nodes'])} times{places}"
