"""Format durations, token counts and money for server-rendered pages."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils.formats import localize, number_format
from django.utils.translation import gettext as _

NO_VALUE = "–"


def format_duration(ms: int | None) -> str:
    """Format as 0.4 s, 12 s, 2 min 5 s or 3 h 20 min, like static/js/shared/formats.js."""
    if ms is None:
        return NO_VALUE
    seconds = ms / 1000
    if seconds < 0.05:
        return _("%s s") % "< 0.1"
    if seconds < 9.95:
        return _("%s s") % localize(round(seconds, 1)).removesuffix(".0")
    if seconds < 60:
        return _("%s s") % round(seconds)
    if seconds < 3600:
        return _("%(minutes)d min %(seconds)d s") % {"minutes": seconds // 60, "seconds": seconds % 60}
    return _("%(hours)d h %(minutes)d min") % {"hours": seconds // 3600, "minutes": seconds % 3600 // 60}


def format_money(usd: float) -> str:
    """Show four decimals below $0.10, because one answer often costs less than a cent."""
    if 0 < usd < 0.0001:
        return "< $0.0001"
    return f"${number_format(usd, decimal_pos=4 if 0 < usd < 0.1 else 2, force_grouping=True)}"


def format_count(number: int) -> str:
    return number_format(number, force_grouping=True)


def to_datetime(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def format_run_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Add formatted figures to a run row."""
    return {
        **row,
        "took": format_duration(row["durationMs"]),
        "cost": format_money(row["usage"]["costUsd"]),
        "tokens": f"{format_count(row['usage']['input'])} / {format_count(row['usage']['output'])}",
        "accepted": to_datetime(row["acceptedAt"]),
        "ended": row["status"] in ("completed", "error", "aborted"),
    }
