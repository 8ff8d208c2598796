"""Show a time: relative with JavaScript (static/js/shared/relative_times.js), otherwise exact. The tooltip is always exact."""

import datetime as dt

from django import template
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html

register = template.Library()


@register.simple_tag
def moment(at: dt.datetime | None) -> str:
    if at is None:
        return ""
    # aria-live="off": screen readers must not announce every change, even inside a live region.
    exact = date_format(timezone.localtime(at), "DATETIME_FORMAT")
    return format_html('<time datetime="{}" title="{}" aria-live="off" data-ago>{}</time>', at.isoformat(), exact, exact)
