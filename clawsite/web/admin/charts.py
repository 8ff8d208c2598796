"""Bars for the dashboard, as numbers that a template writes into an SVG. No script and no inline style is needed to draw them."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 900.0, 160.0
COLUMN_GAP = 0.22  # of a bar's place


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of one column; `y` counts from the top, as SVG does. Numbers are text, so that no language writes commas."""

    x: str
    y: str
    width: str
    height: str
    part: int
    title: str


def build_columns(values: Sequence[Sequence[float]], titles: Sequence[str]) -> list[Bar]:
    """Stacked columns over the whole width, the highest as high as the plot."""
    highest = max((sum(parts) for parts in values), default=0)
    if not highest:
        return []
    place = WIDTH / len(values)
    bars = []
    for number, (parts, title) in enumerate(zip(values, titles, strict=True)):
        top = HEIGHT
        for part, value in enumerate(parts):
            height = value / highest * HEIGHT
            top -= height
            if value:
                x, width = place * (number + COLUMN_GAP / 2), place * (1 - COLUMN_GAP)
                bars.append(Bar(f"{x:.1f}", f"{top:.1f}", f"{width:.1f}", f"{max(height, 1):.1f}", part, title))
    return bars


def to_percent(value: float, highest: float) -> str:
    """A width in percent."""
    return f"{value / highest * 100:.1f}" if highest else "0"
