"""The audit log in the admin: auditors can view, search and export it. Views and exports are recorded in the log too."""

from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import NoReverseMatch, URLPattern, path
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.timezone import localtime
from django.utils.translation import gettext_lazy as _

from clawsite.infra import clock, db
from clawsite.infra.admin.base import PageLink, ReadOnlyAdmin, RelatedRows
from clawsite.infra.admin.display import EMPTY, format_db_time, link_to, page_link, pretty_json
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import export as audit_export
from clawsite.infra.audit import log as audit_log
from clawsite.infra.audit.actions import ACTIONS, label_for
from clawsite.infra.models import AuditEntry, AuditSeal

MAX_LIST_ITEMS_SHOWN = 4  # items of a list in the details, such as the groups an account was added to
READ_RECORD_INTERVAL = timedelta(minutes=10)  # so that an hour of reading adds a handful of entries, not hundreds


class ActionFilter(admin.SimpleListFilter):
    """List every action that can be recorded: finding those in use would read the whole table."""

    title = _("action")
    parameter_name = "action"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(ACTIONS.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(action=self.value()) if self.value() else queryset


def _shorten(value: Any) -> str:
    """Format a detail for the list view. Nested values are only shown on the entry's page."""
    if isinstance(value, list) and len(value) <= MAX_LIST_ITEMS_SHOWN and all(isinstance(each, str | int) for each in value):
        return " ".join(map(str, value))
    return str(value) if isinstance(value, str | int) else ""


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_name = _("Audit log")
    list_display = ["id", "when", "what", "who", "about", "session_link", "run_link", "in_short"]
    list_filter = [ActionFilter, "actor_kind"]
    # Exact matches only: a substring search would scan the whole table.
    search_fields = ["actor_name__exact", "actor_id__exact", "subject_id__exact", "session__exact", "run__exact"]
    search_help_text = _("Actor name or ID, target ID, session ID or run number (exact match)")
    date_hierarchy = "at"
    ordering = ["-id"]
    actions = None
    list_before_template = "admin/infra/auditentry/_export.html"
    fieldsets = [
        (None, {"fields": [("when", "what"), ("who", "actor_kind", "actor_id"), ("subject_kind", "subject_id", "about")]}),
        (_("Session and run"), {"fields": [("session_link", "run_link")]}),
        (_("Details"), {"fields": ["details_shown"]}),
        (_("Hash chain"), {"fields": ["digest", "position", "previous", "hash"]}),
    ]

    @admin.display(description=_("time"), ordering="at")
    def when(self, entry: AuditEntry) -> str:
        """Include seconds, unlike other times in the admin: the order of entries often matters."""
        return date_format(localtime(entry.at), "Y-m-d H:i:s")

    @admin.display(description=_("action"), ordering="action")
    def what(self, entry: AuditEntry) -> str:
        return label_for(entry.action)

    @admin.display(description=_("actor"), ordering="actor_name")
    def who(self, entry: AuditEntry) -> str:
        name = entry.actor_name or str(entry.get_actor_kind_display())
        if entry.actor_kind in ("person", "service") and entry.actor_id:
            return link_to("accounts", "user", entry.actor_id, name)
        return link_to("agents", "agent", entry.actor_id, name) if entry.actor_kind == "agent" and entry.actor_id else name

    @admin.display(description=_("target"), ordering="subject_id")
    def about(self, entry: AuditEntry) -> str:
        text = f"{entry.subject_kind} {entry.subject_id}".strip() or EMPTY
        app, _dot, model = entry.subject_kind.partition(".")
        try:
            return link_to(app, model, entry.subject_id, text) if model else text
        except NoReverseMatch:
            return text

    @admin.display(description=_("session"), ordering="session")
    def session_link(self, entry: AuditEntry) -> str:
        return link_to("sessions_app", "session", entry.session, entry.session[:8]) if entry.session else EMPTY

    @admin.display(description=_("run"))
    def run_link(self, entry: AuditEntry) -> str:
        return page_link("run", entry.run, entry.run) or EMPTY if entry.run.isdecimal() else entry.run or EMPTY

    @admin.display(description=_("details"))
    def in_short(self, entry: AuditEntry) -> str:
        details = {name: value for name, value in entry.details.items() if name != "plan"}  # a fingerprint; see the entry's page
        summary = ", ".join(f"{name}: {text}" for name, value in details.items() if (text := _shorten(value)))
        if not summary:
            return EMPTY
        # Codes and names, which are not translated.
        return format_html('<span lang="en">{}</span>', f"{summary[:119]}…" if len(summary) > 120 else summary)

    @admin.display(description=_("details"))
    def details_shown(self, entry: AuditEntry) -> str:
        return pretty_json(entry.details)

    @admin.display(description=_("position in the chain"))
    def position(self, entry: AuditEntry) -> str:
        seal = _find_seal(entry)
        return f"{seal.position} · {format_db_time(seal.sealed_at.timestamp())}" if seal else str(_("not chained yet"))

    @admin.display(description=_("previous hash"))
    def previous(self, entry: AuditEntry) -> str:
        return seal.previous if (seal := _find_seal(entry)) else EMPTY

    @admin.display(description=_("hash"))
    def hash(self, entry: AuditEntry) -> str:
        return seal.hash if (seal := _find_seal(entry)) else EMPTY

    def related_links(self, row: AuditEntry) -> Iterable[RelatedRows | PageLink]:
        if row.session:
            yield RelatedRows(_("All entries of this session"), AuditEntry, {"session": row.session})
        if row.run:
            yield RelatedRows(_("All entries of this run"), AuditEntry, {"session": row.session, "run": row.run})

    def get_urls(self) -> list[URLPattern]:
        export = path("export/", self.admin_site.admin_view(self.export), name="infra_auditentry_export")
        return [export, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        self._record_reading(request)
        return super().changelist_view(request, extra_context)

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        self._record_reading(request)
        return super().changeform_view(request, object_id, form_url, extra_context)

    def export(self, request: HttpRequest) -> HttpResponseBase:
        """Export all pages of the list with the current filters."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        entries = self.get_changelist_instance(request).get_queryset(request)
        filters = {name: value for name, value in request.GET.items() if value}
        audit_log.record("audit.exported", actor=acting.actor_for_user(request.user), entries=entries.count(), chosen=filters)
        response = StreamingHttpResponse(_stream_lines(entries), content_type="application/x-ndjson")
        response["Content-Disposition"] = f'attachment; filename="audit-{clock.now():%Y-%m-%d-%H%M}.jsonl"'
        response["Cache-Control"] = "no-store"
        return response

    def _record_reading(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            return
        actor = acting.actor_for_user(request.user)
        recent = AuditEntry.objects.filter(action="audit.read", actor_id=actor.id, at__gte=clock.now() - READ_RECORD_INTERVAL)
        if not recent.exists():
            audit_log.record("audit.read", actor=actor)


async def _stream_lines(entries: QuerySet[AuditEntry]) -> AsyncIterator[bytes]:
    """Read in pages, so that a million entries are never in memory at once."""
    last_id: int | None = None
    while True:
        lines, last_id = await db.read(audit_export.read_page, entries, last_id)
        if last_id is None:
            return
        yield lines


def _find_seal(entry: AuditEntry) -> AuditSeal | None:
    """Cached on the entry, because several fields of a page need it."""
    if "seal" not in entry.__dict__:
        entry.__dict__["seal"] = AuditSeal.objects.filter(entry_id=entry.pk).first()
    seal: AuditSeal | None = entry.__dict__["seal"]
    return seal
