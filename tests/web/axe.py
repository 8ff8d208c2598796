"""What axe-core finds wrong with a page, by day and by night. The library is in vendor/axe, as its makers publish it."""

import warnings
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Page

HERE = Path(__file__).parent
AXE = (HERE / "vendor/axe/axe.min.js").read_text()
LOOK = (HERE / "axe_look.js").read_text()
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
GRAVE = ("serious", "critical")
EVERYTHING = {"runOnly": {"type": "tag", "values": TAGS}, "rules": {"target-size": {"enabled": True}}}
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}  # what only colours change

BY_DAY_AND_NIGHT: list[tuple[Literal["light", "dark"], dict[str, Any]]] = [("light", EVERYTHING), ("dark", CONTRAST)]


def found(page: Page, options: dict[str, Any] = EVERYTHING) -> list[dict[str, Any]]:
    """The rules that are broken as the page stands, each with the elements that break it."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    broken: list[dict[str, Any]] = page.evaluate(LOOK, options)
    return broken


def look(page: Page, where: str, faults: list[str]) -> None:
    """Note what is grave among the faults; the rest is a warning. By day everything is looked at, by night the colours."""
    for colours, options in BY_DAY_AND_NIGHT:
        page.emulate_media(color_scheme=colours, reduced_motion="reduce")
        for broken in found(page, options):
            told = in_words(f"{where}, {colours}", broken)
            if broken["impact"] in GRAVE:
                faults.append(told)
            else:
                warnings.warn(told, stacklevel=2)


def in_words(where: str, broken: dict[str, Any]) -> str:
    places = "".join(f"\n    {node['where']}\n      {node['html']}\n      {node['why']}" for node in broken["nodes"][:6])
    return f"{where}: {broken['id']} ({broken['impact']}): {broken['help']}, {len(broken['nodes'])} times{places}"
