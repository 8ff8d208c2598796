"""Bulk actions with a confirmation page that previews the effect on each row."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from clawsite.infra.errors import ClawError

MAX_ROWS = 500  # per action: the page lists every row, and Django accepts 1,000 form fields


@dataclass(frozen=True, slots=True)
class ActionPreview:
    """The effect on one row. `acts` is False if the action would not change it."""

    text: Any
    acts: bool = True


RowsAction = Callable[[Any, HttpRequest, list[Any]], str]
AdminAction = Callable[[Any, HttpRequest, QuerySet[Any]], HttpResponse | None]
PreviewRow = Callable[[HttpRequest, Any], ActionPreview]


def with_confirmation(*, label: Any, warning: Any, permission: str, preview: PreviewRow) -> Callable[[RowsAction], AdminAction]:
    """Turn a method into an admin action. The method gets the affected rows and returns the success message.

    If it raises ClawError, the message is shown; in that case it must not have changed anything.
    """

    def decorate(act: RowsAction) -> AdminAction:
        @wraps(act)
        def action(self: Any, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
            rows = list(queryset[: MAX_ROWS + 1])
            if len(rows) > MAX_ROWS:
                self.message_user(request, _("Select at most %d rows at a time.") % MAX_ROWS, messages.ERROR)
                return None
            previews = [(row, preview(request, row)) for row in rows]
            affected = [row for row, row_preview in previews if row_preview.acts]
            if not affected:
                self.message_user(request, _("There is nothing to do for the selected rows."), messages.WARNING)
            elif request.POST.get("confirmed") == "yes":
                try:
                    self.message_user(request, act(self, request, affected), messages.SUCCESS)
                except ClawError as error:
                    self.message_user(request, error.message, messages.ERROR)
            else:
                return _render_confirmation(self, request, previews, act.__name__, label, warning)
            return None

        return admin.action(action, description=label, permissions=[permission])

    return decorate


def _render_confirmation(
    model_admin: Any, request: HttpRequest, previews: Iterable[tuple[Any, ActionPreview]], action: str, label: Any, warning: Any
) -> HttpResponse:
    context = {
        **model_admin.admin_site.each_context(request),
        "title": label,
        "opts": model_admin.opts,
        "warning": warning,
        "previews": previews,
        "affected": sum(preview.acts for _row, preview in previews),
        "action": action,
        "checkbox": ACTION_CHECKBOX_NAME,
        "media": model_admin.media,
    }
    return TemplateResponse(request, "admin/confirm_action.html", context)
