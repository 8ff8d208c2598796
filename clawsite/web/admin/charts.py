"""Bar charts for the dashboard, as coordinates for an SVG in a template. They need no scripts and no inline styles."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 900.0, 160.0
COLUMN_GAP = 0.22  # fraction of a column's width


@dataclass(frozen=True, slots=True)
class Bar:
    """One segment of a column; `y` counts from the top, as in SVG. Numbers are strings, so that no locale adds commas."""

    x: str
    y: str
    width: str
    height: str
    part: int
    title: str


def build_columns(values: Sequence[Sequence[float]], titles: Sequence[str]) -> list[Bar]:
    """Build stacked columns across the full width, scaled so that the highest fills the plot."""
    highest = max((sum(parts) for parts in values), default=0)
    if not highest:
        return []
    column_width = WIDTH / len(values)
    bars = []
    for number, (parts, title) in enumerate(zip(values, titles, strict=True)):
        top = HEIGHT
        for part, value in enumerate(parts):
            height = value / highest * HEIGHT
            top -= height
            if value:
                x, width = column_width * (number + COLUMN_GAP / 2), column_width * (1 - COLUMN_GAP)
                bars.append(Bar(f"{x:.1f}", f"{top:.1f}", f"{width:.1f}", f"{max(height, 1):.1f}", part, title))
    return bars


def to_percent(value: float, highest: float) -> str:
    """Return the value as a percentage of the highest."""
    return f"{value / highest * 100:.1f}" if highest else "0"
