"""Bulk actions that first say, row by row, what they will do, and do it only after a second click."""

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

MAX_ROWS = 500  # at a time: each row is listed, and Django takes 1,000 fields of a form


@dataclass(frozen=True, slots=True)
class ActionPreview:
    """What would happen to one row, in words; `acts` is False where nothing would."""

    says: Any
    acts: bool = True


RowsAction = Callable[[Any, HttpRequest, list[Any]], str]
AdminAction = Callable[[Any, HttpRequest, QuerySet[Any]], HttpResponse | None]
PreviewRow = Callable[[HttpRequest, Any], ActionPreview]


def with_confirmation(*, label: Any, warning: Any, permission: str, outlook: PreviewRow) -> Callable[[RowsAction], AdminAction]:
    """Make an admin action of a method that acts on the rows concerned and returns what was done, in words.

    What it refuses, by a ClawError, is shown; then it must have done nothing.
    """

    def make(act: RowsAction) -> AdminAction:
        @wraps(act)
        def action(self: Any, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
            chosen = list(queryset[: MAX_ROWS + 1])
            if len(chosen) > MAX_ROWS:
                self.message_user(request, _("Select at most %d rows at a time.") % MAX_ROWS, messages.ERROR)
                return None
            prospects = [(row, outlook(request, row)) for row in chosen]
            concerned = [row for row, prospect in prospects if prospect.acts]
            if not concerned:
                self.message_user(request, _("There is nothing to do for the selected rows."), messages.WARNING)
            elif request.POST.get("confirmed") == "yes":
                try:
                    self.message_user(request, act(self, request, concerned), messages.SUCCESS)
                except ClawError as refused:
                    self.message_user(request, refused.message, messages.ERROR)
            else:
                return _render_confirmation(self, request, prospects, act.__name__, label, warning)
            return None

        return admin.action(action, description=label, permissions=[permission])

    return make


def _render_confirmation(
    model_admin: Any, request: HttpRequest, prospects: Iterable[tuple[Any, ActionPreview]], action: str, label: Any, warning: Any
) -> HttpResponse:
    context = {
        **model_admin.admin_site.each_context(request),
        "title": label,
        "opts": model_admin.opts,
        "warning": warning,
        "prospects": prospects,
        "concerned": sum(prospect.acts for _row, prospect in prospects),
        "action": action,
        "checkbox": ACTION_CHECKBOX_NAME,
        "media": model_admin.media,
    }
    return TemplateResponse(request, "admin/confirm_action.html", context)
