"""Draws the icons in static/icons and static/favicon.svg from the mark, with the real Chromium. Run it when the mark changes.

The mark itself, a lobster's claw, is templates/shared/_logo.html: pages put it in as it is, in the colour of their text.
"""

import re
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
TERRACOTTA, PAPER = "#a23f25", "#fffaf5"  # --accent and --accent-ink by day
# File, pixels, corner radius and size of the mark as shares of the edge. A maskable icon may lose all outside a circle of 80 %.
ICONS = (
    ("icon-192.png", 192, 0.25, 0.86),
    ("icon-512.png", 512, 0.25, 0.86),
    ("icon-maskable-512.png", 512, 0.0, 0.68),
    ("apple-touch-icon.png", 180, 0.0, 0.8),
)


def drawing(radius: float, share: float) -> str:
    logo = " ".join((ROOT / "templates/shared/_logo.html").read_text().split())
    outline = re.findall(r"<path[^>]*/>", logo)[0]
    place = f"translate({16 - 16 * share:g} {16 - 16 * share:g}) scale({share:g})"
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
        f'<rect width="32" height="32" rx="{32 * radius:g}" fill="{TERRACOTTA}"/>'
        f'<g fill="{PAPER}" transform="{place}">{outline}</g></svg>\n'
    )


def main() -> None:
    (ROOT / "static/favicon.svg").write_text(drawing(0.22, 0.94))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--headless", "--no-sandbox"])
        for name, pixels, radius, share in ICONS:
            page = browser.new_page(viewport={"width": pixels, "height": pixels})
            page.set_content(f"<style>body{{margin:0}}svg{{display:block}}</style>{drawing(radius, share)}")
            page.screenshot(path=ROOT / "static/icons" / name, omit_background=True)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
