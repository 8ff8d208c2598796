"""Durations, tokens and money as the pages write them, where no script does."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils.formats import localize, number_format
from django.utils.translation import gettext as _

NOTHING = "–"


def duration(ms: int | None) -> str:
    """0.4 s, 12 s, 2 min 5 s, 3 h 20 min, as static/js/shared/formats.js says it."""
    if ms is None:
        return NOTHING
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


def money(usd: float) -> str:
    """Cents of a cent matter: an answer costs less than one."""
    if 0 < usd < 0.0001:
        return "< $0.0001"
    return f"${number_format(usd, decimal_pos=4 if 0 < usd < 0.1 else 2, force_grouping=True)}"


def count(number: int) -> str:
    return number_format(number, force_grouping=True)


def moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def shown_run(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a run with its figures in words."""
    return {
        **row,
        "took": duration(row["durationMs"]),
        "cost": money(row["usage"]["costUsd"]),
        "tokens": f"{count(row['usage']['input'])} / {count(row['usage']['output'])}",
        "accepted": moment(row["acceptedAt"]),
        "ended": row["status"] in ("completed", "error", "aborted"),
    }
