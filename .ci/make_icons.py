"""Draw the icons in static/icons and static/favicon.svg from the logo, with Chromium. Run it when the logo changes.

The logo, a lobster's claw, is templates/shared/_logo.html. Pages include it as inline SVG in their text color.
"""

import re
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
TERRACOTTA, PAPER = "#a23f25", "#fffaf5"  # --accent and --accent-ink of the light theme
# File, pixels, corner radius and logo size as fractions of the edge. A maskable icon may be cropped to a circle of 80 %.
ICONS = (
    ("icon-192.png", 192, 0.25, 0.86),
    ("icon-512.png", 512, 0.25, 0.86),
    ("icon-maskable-512.png", 512, 0.0, 0.68),
    ("apple-touch-icon.png", 180, 0.0, 0.8),
)


def render_svg(radius: float, scale: float) -> str:
    logo = " ".join((ROOT / "templates/shared/_logo.html").read_text().split())
    outline = re.findall(r"<path[^>]*/>", logo)[0]
    transform = f"translate({16 - 16 * scale:g} {16 - 16 * scale:g}) scale({scale:g})"
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
        f'<rect width="32" height="32" rx="{32 * radius:g}" fill="{TERRACOTTA}"/>'
        f'<g fill="{PAPER}" transform="{transform}">{outline}</g></svg>\n'
    )


def main() -> None:
    (ROOT / "static/favicon.svg").write_text(render_svg(0.22, 0.94))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--headless", "--no-sandbox"])
        for name, pixels, radius, scale in ICONS:
            page = browser.new_page(viewport={"width": pixels, "height": pixels})
            page.set_content(f"<style>body{{margin:0}}svg{{display:block}}</style>{render_svg(radius, scale)}")
            page.screenshot(path=ROOT / "static/icons" / name, omit_background=True)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
