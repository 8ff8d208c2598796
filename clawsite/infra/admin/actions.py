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

MOST = 500  # at a time: each row is listed, and Django takes 1,000 fields of a form


@dataclass(frozen=True, slots=True)
class Outlook:
    """What would happen to one row, in words; `acts` is False where nothing would."""

    says: Any
    acts: bool = True


Act = Callable[[Any, HttpRequest, list[Any]], str]
Action = Callable[[Any, HttpRequest, QuerySet[Any]], HttpResponse | None]
Foresee = Callable[[HttpRequest, Any], Outlook]


def confirmed(*, label: Any, warning: Any, permission: str, outlook: Foresee) -> Callable[[Act], Action]:
    """Make an admin action of a method that acts on the rows concerned and returns what was done, in words.

    What it refuses, by a ClawError, is shown; then it must have done nothing.
    """

    def make(act: Act) -> Action:
        @wraps(act)
        def action(self: Any, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
            chosen = list(queryset[: MOST + 1])
            if len(chosen) > MOST:
                self.message_user(request, _("Select at most %d rows at a time.") % MOST, messages.ERROR)
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
                return _ask(self, request, prospects, act.__name__, label, warning)
            return None

        return admin.action(action, description=label, permissions=[permission])

    return make


def _ask(
    model_admin: Any, request: HttpRequest, prospects: Iterable[tuple[Any, Outlook]], action: str, label: Any, warning: Any
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
