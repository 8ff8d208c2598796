"""Format values for the admin: links between rows, JSON, money, times, badges.

The values include text from agents and users, so every function returns plain text or escaped HTML.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.urls import NoReverseMatch, reverse
from django.utils.formats import localize, number_format
from django.utils.html import format_html
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

MAX_JSON_LENGTH = 100_000  # characters; browsers render more only slowly, and the whole row can be exported
EMPTY = "–"

Column = Callable[[Any], Any]
LazyText = Any  # a str, or the lazy translation of one


def change_link(row: Model | None, text: str = "") -> str:
    """Return a link to the row's admin page."""
    if row is None:
        return EMPTY
    return link_to(row._meta.app_label, row._meta.model_name or "", row.pk, text or str(row))


def link_to(app: str, model: str, pk: Any, text: str) -> str:
    """Return a link to a row known only by its key. The row may not exist."""
    return format_html('<a class="text-link" href="{}">{}</a>', reverse(f"admin:{app}_{model}_change", args=[pk]), text)


def page_link(name: str, pk: Any, text: LazyText) -> str:
    """Return a link to a page outside the admin, or "" if there is no such page."""
    try:
        return format_html('<a class="text-link" href="{}">{}</a>', reverse(name, args=[pk]), text)
    except NoReverseMatch:
        return ""


def pretty_json(value: Any) -> str:
    """Return indented, escaped JSON in a <pre>, with non-ASCII characters as they are."""
    if value in (None, "", {}, []):
        return EMPTY
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    if len(text) > MAX_JSON_LENGTH:
        text = text[:MAX_JSON_LENGTH] + "\n" + _("… and %d more characters") % (len(text) - MAX_JSON_LENGTH)
    return format_html('<pre class="json" tabindex="0">{}</pre>', text)


def format_usd(micro: int) -> str:
    return f"${number_format(micro / 1e6, decimal_pos=4, force_grouping=True)}" if micro else EMPTY


def format_seconds_between(start: datetime | None, end: datetime | None) -> str:
    if not start or not end:
        return EMPTY
    return gettext("%s s") % number_format((end - start).total_seconds(), decimal_pos=1, force_grouping=True)


def format_db_time(seconds: float | None) -> str:
    """Format database time (seconds since 1970), as used by leases and heartbeats."""
    return str(localize(localtime(datetime.fromtimestamp(seconds, UTC)))) if seconds else EMPTY


def link_column(field: str, description: LazyText) -> Column:
    """Create a column that links to the target of a foreign key."""

    @admin.display(description=description, ordering=field)
    def column(row: Any) -> str:
        return change_link(getattr(row, field))

    return column


def badge_column(field: str, description: LazyText, colors: dict[str, str]) -> Column:
    """Create a column with a colored badge. `colors` maps values to success, info, warning or danger."""

    @admin.display(description=description, ordering=field)
    def column(row: Any) -> Any:
        value = getattr(row, field)
        return (value, getattr(row, f"get_{field}_display", lambda: value)())

    setattr(column, "label", colors)  # noqa: B010  # unfold reads this attribute; functions don't declare it
    return column
