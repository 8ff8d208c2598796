"""The colors of static/css/tokens.css in the light and dark theme: text is readable on every surface (WCAG 2.2, AA)."""

import re
from pathlib import Path

import pytest

TOKENS = (Path(__file__).parents[2] / "static/css/tokens.css").read_text()
COLOURS = {name: (day, night) for name, day, night in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", TOKENS)}
SURFACES = ("paper", "panel", "raised", "code", "mine")
WORDS = ("ink", "faint", "accent", "good", "bad", "warn")

by_day_and_night = pytest.mark.parametrize("night", [False, True], ids=["day", "night"])


def luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str, night: bool) -> float:
    lighter, darker = sorted((luminance(COLOURS[one][night]), luminance(COLOURS[other][night])), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_every_colour_has_light_and_dark_values() -> None:
    assert set(COLOURS) == {*SURFACES, *WORDS, "line", "accent-ink", "focus"}


@by_day_and_night
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("word", WORDS)
def test_text_contrast_is_sufficient_on_every_surface(word: str, surface: str, night: bool) -> None:
    assert contrast(word, surface, night) >= 4.5


@by_day_and_night
@pytest.mark.parametrize("filled", ["accent", "bad"])
def test_text_contrast_is_sufficient_on_filled_buttons(filled: str, night: bool) -> None:
    assert contrast("accent-ink", filled, night) >= 4.5


@by_day_and_night
@pytest.mark.parametrize("surface", SURFACES)
def test_focus_outline_contrast_is_sufficient(surface: str, night: bool) -> None:
    assert contrast("focus", surface, night) >= 3
