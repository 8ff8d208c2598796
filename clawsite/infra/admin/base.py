"""Base classes for the admin pages of all apps: links from a row to related rows, audited changes, and read-only pages."""

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

if TYPE_CHECKING:  # unfold has no type hints, and Django's classes are not generic at run time
    BaseAdmin = admin.ModelAdmin[Any]
    BaseInline = admin.TabularInline[Any, Any]
else:
    from unfold.admin import ModelAdmin as BaseAdmin
    from unfold.admin import TabularInline as BaseInline


@dataclass(frozen=True, slots=True)
class RelatedRows:
    """A link to the list of `model`, filtered by `where`."""

    label: Any
    model: type[Model]
    where: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link to a page outside the admin, by its URL name."""

    label: Any
    name: str
    pk: Any = None  # None for a page that is not about a single row


# Fields that `related_links` filters by, and lookups that list filters and the date hierarchy append to field names.
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
    """Lists of 50 rows without a count of the whole table, and links to related rows above every form."""

    list_per_page = 50
    show_full_result_count = False  # counting millions of events costs more than rendering the page
    warn_unsaved_form = True
    change_form_before_template = "admin/_related_links.html"
    list_name: Any = ""  # name of the list in menu and headings; defaults to the plural of the model
    when_empty: Any = ""  # shown when the list is empty: how rows get here
    audited_as = "settings.changed"  # audit action for changes; "" if the service that makes the change records it

    def related_links(self, row: Any) -> Iterable[RelatedRows | PageLink]:
        """Yield links to rows and pages related to this row."""
        return ()

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow only the lookups of the page itself. Others would reveal hidden columns, such as a cookie, letter by letter."""
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
        """Run a bulk deletion in one transaction, because Django logs it first. Other actions have their own transactions."""
        if request.POST.get("action") != "delete_selected":
            return super().response_action(request, queryset, *where)
        with transaction.atomic():
            return super().response_action(request, queryset, *where)

    def _visible_values(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the values shown on the row's page. Pages never show secrets."""
        shown = set(flatten_fieldsets(self.get_fieldsets(request, row)))
        values = {field.name: field.value_from_object(row) for field in row._meta.concrete_fields if field.name in shown}
        return {name: value for name, value in values.items() if value not in ("", None)}

    def _audit(self, request: HttpRequest, row: Any, change: str, message: Any, **more: Any) -> None:
        """Record the row and the names of changed fields, but not their values, because some are secrets."""
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
        links = [link for each in self.related_links(row) if (link := self._to_link(request, each))] if row else []
        context = {**(extra_context or {}), "around": links, "list_name": self.list_name}
        return super().changeform_view(request, object_id, form_url, context)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Check the permission first. Django looks up the row first, which reveals whether it exists."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        return super().history_view(request, object_id, extra_context)

    def _to_link(self, request: HttpRequest, each: RelatedRows | PageLink) -> dict[str, Any] | None:
        """Build the template context of a link. Return None if the user can't open its target."""
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
    """Return the query parameter of a list filter."""
    if isinstance(each, tuple):
        return str(each[0])
    return each if isinstance(each, str) else str(each.parameter_name)


class ReadOnlyAdmin(ClawAdmin):
    """For rows that only services write: nothing can be added, changed or deleted here."""

    audited_as = "admin.acted"  # for bulk actions, because these rows are not settings
    compressed_fields = False  # labels above values, so that three fit in a row
    private_fields: tuple[str, ...] = ()  # user content, visible only with permission to view any session

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if request.user.has_perm("accounts.view_any_session") else self.private_fields

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        hidden = self.get_exclude(request)
        return [name for name in self.list_display if name not in hidden]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[tuple[Any, Any]]:
        """Remove hidden fields, and fieldsets that become empty."""
        hidden = self.get_exclude(request, obj)
        sets = []
        for title, options in super().get_fieldsets(request, obj):
            lines = [visible for line in options["fields"] if (visible := _without_fields(line, hidden))]
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
    """Related rows shown below a form, without editing."""

    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def _without_fields(line: str | Sequence[Any], hidden: tuple[str, ...]) -> Any:
    """Return a fieldset line without the hidden fields, or an empty value if nothing is left."""
    if isinstance(line, list | tuple):
        return tuple(name for name in line if name not in hidden)
    return None if line in hidden else line
