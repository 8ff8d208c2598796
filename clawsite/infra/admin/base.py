"""What the admins of all apps have in common: links from a row to the rows around it, and history that nobody can change."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse

from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log

if TYPE_CHECKING:  # unfold brings no types, and Django's classes take no parameters at run time
    BaseAdmin = admin.ModelAdmin[Any]
    BaseInline = admin.TabularInline[Any, Any]
else:
    from unfold.admin import ModelAdmin as BaseAdmin
    from unfold.admin import TabularInline as BaseInline


@dataclass(frozen=True, slots=True)
class RelatedRows:
    """Rows that belong to the one on the page: a list of `model`, narrowed by `where`."""

    label: Any
    model: type[Model]
    where: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageLink:
    """A page of ours outside the admin, by the name of its address."""

    label: Any
    name: str
    pk: Any = None  # None: a page that is about no single row


# What `around` narrows lists by; and what filters and the date hierarchy add to the names of their fields.
LINKED_FIELDS = {
    "agent",
    "device",
    "groups",
    "hook",
    "lane",
    "owner",
    "parent",
    "policy_version",
    "run",
    "scope",
    "session",
    "status",
}
LINKED_FIELDS |= {"subject", "user", "worker"}
ALLOWED_LOOKUPS = {"exact", "id", "pk", "isnull", "isempty", "gte", "lt", "lte", "year", "month", "day"}


class ClawAdmin(BaseAdmin):
    """Lists of 50, without a second count of the whole table, and a row of links above every form."""

    list_per_page = 50
    show_full_result_count = False  # counting millions of events costs more than the page
    warn_unsaved_form = True
    change_form_before_template = "admin/_related_links.html"
    list_name: Any = ""  # what the menu and the headings call all of it, if not by the plural
    when_empty: Any = ""  # how something comes to be in the list, for who finds none
    audited_as = "settings.changed"  # "": the service that makes the change records it itself

    def around(self, row: Any) -> Iterable[RelatedRows | PageLink]:
        """What else there is about this row."""
        return ()

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Only what the page itself offers. Any other condition would tell hidden columns, such as a cookie, letter by letter."""
        if lookup in LINKED_FIELDS:
            return True
        filters = {name for each in self.get_list_filter(request) if (name := _filter_parameter(each))}
        for name in {*filters, self.date_hierarchy or ""}:
            rest = lookup.removeprefix(name).split("__")[1:]
            if lookup == name or (name and lookup.startswith(f"{name}__") and ALLOWED_LOOKUPS.issuperset(rest)):
                return True
        return False

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        self._audit(request, obj, "added", message)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        self._audit(request, obj, "changed", message)
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        for row in queryset:
            self._audit(request, row, "deleted", [], was=self._visible_values(request, row))
        return super().log_deletions(request, queryset)

    def response_action(self, request: HttpRequest, queryset: Any, *where: Any) -> Any:
        """Deleting many writes its log before it deletes: here both or neither. Other actions have transactions of their own."""
        if request.POST.get("action") != "delete_selected":
            return super().response_action(request, queryset, *where)
        with transaction.atomic():
            return super().response_action(request, queryset, *where)

    def _visible_values(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """What the row says, as far as its page shows it: secrets are on none."""
        shown = set(flatten_fieldsets(self.get_fieldsets(request, row)))
        values = {field.name: field.value_from_object(row) for field in row._meta.concrete_fields if field.name in shown}
        return {name: value for name, value in values.items() if value not in ("", None)}

    def _audit(self, request: HttpRequest, row: Any, change: str, message: Any, **more: Any) -> None:
        """Which row, and which of its fields: of a change never their values, some of which are secrets."""
        if not self.audited_as:
            return
        parts = [each.get("changed", {}) for each in message if isinstance(each, dict)] if isinstance(message, list) else []
        fields = [name for each in parts for name in each.get("fields", [])]
        details = {"change": change, **({"fields": fields} if fields else {}), **more}
        audit_log.record(
            self.audited_as, actor=acting.actor_for_user(request.user), subject=(row._meta.label_lower, row.pk), **details
        )

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, object_id) if object_id else None
        around = [shown for each in self.around(row) if (shown := self._to_link(request, each))] if row else []
        named = {"around": around, "list_name": self.list_name}
        return super().changeform_view(request, object_id, form_url, {**(extra_context or {}), **named})

    def history_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Django looks for the row first, and so tells whoever may not see any whether there is one."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        return super().history_view(request, object_id, extra_context)

    def _to_link(self, request: HttpRequest, each: RelatedRows | PageLink) -> dict[str, Any] | None:
        """As the template wants it; None for a list that this person may not open."""
        if isinstance(each, PageLink):
            try:
                return {"label": each.label, "url": reverse(each.name, args=[] if each.pk is None else [each.pk])}
            except NoReverseMatch:
                return None
        if not self.admin_site.get_model_admin(each.model).has_view_permission(request):
            return None
        opts = each.model._meta
        url = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
        count = each.model._default_manager.filter(**each.where).count()
        return {"label": each.label, "url": f"{url}?{urlencode(each.where)}", "count": count}


def _filter_parameter(each: Any) -> str:
    """The name that a filter of the list puts into the address."""
    if isinstance(each, tuple):
        return str(each[0])
    return each if isinstance(each, str) else str(each.parameter_name)


class ReadOnlyAdmin(ClawAdmin):
    """Rows of the state layer are written by services only, so nothing here can be added, changed or deleted."""

    audited_as = "admin.acted"  # by an action of the list, on what is no setting
    compressed_fields = False  # labels above values, so that three fit in a line
    words: tuple[str, ...] = ()  # fields with what people wrote: for those who may read every session

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if request.user.has_perm("accounts.view_any_session") else self.words

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        hidden = self.get_exclude(request)
        return [name for name in self.list_display if name not in hidden]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[tuple[Any, Any]]:
        """Ours, less the words; a set of which nothing is left goes too."""
        hidden = self.get_exclude(request, obj)
        sets = []
        for title, options in super().get_fieldsets(request, obj):
            lines = [kept for line in options["fields"] if (kept := _without_fields(line, hidden))]
            if lines:
                sets.append((title, {**options, "fields": lines}))
        return sets

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyInline(BaseInline):
    """Rows shown below the one they belong to."""

    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def _without_fields(line: str | Sequence[Any], hidden: tuple[str, ...]) -> Any:
    """A line of a form without the hidden fields."""
    if isinstance(line, list | tuple):
        return tuple(name for name in line if name not in hidden)
    return None if line in hidden else line
