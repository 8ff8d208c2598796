"""Admin pages for the tables behind sessions: transcript, events, files, outbox, workers, lanes. Only lane limits can be edited."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext_lazy as _

from clawsite.infra import clock
from clawsite.infra.admin.base import ClawAdmin, PageLink, ReadOnlyAdmin, RelatedRows
from clawsite.infra.admin.display import EMPTY, format_db_time
from sessions_app.admin.display import OUTBOX_STATUS, OWNER, RUN, SESSION
from sessions_app.models import Attachment, Event, Freeze, Lane, Outbox, Run, ToolCall, TranscriptEntry, Worker

MAX_EXCERPT_LENGTH = 120


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return f"{line[:MAX_EXCERPT_LENGTH]}…" if len(line) > MAX_EXCERPT_LENGTH else line or EMPTY


@admin.register(TranscriptEntry)
class TranscriptEntryAdmin(ReadOnlyAdmin):
    list_display = ["id", SESSION, "position", "kind", "role", "said", RUN, "created_at"]
    list_filter = ["kind", "role"]
    search_fields = ["session__key", "message_id", "run__run_id"]
    search_help_text = _("Session key, message ID or run ID")
    list_select_related = ["session", "run"]
    date_hierarchy = "created_at"
    ordering = ["-id"]
    fieldsets = [
        (None, {"fields": [("session", "run"), ("kind", "role"), "text"]}),
        (_("Raw content"), {"fields": ["content", "meta"]}),
        (_("Position"), {"fields": [("position", "generation", "step"), ("message_id", "created_at"), "keep_through"]}),
    ]

    @admin.display(description=_("text"))
    def said(self, entry: TranscriptEntry) -> str:
        return _excerpt(entry.text)

    def related_links(self, row: TranscriptEntry) -> Iterable[RelatedRows]:
        yield RelatedRows(_("Full transcript"), TranscriptEntry, {"session": str(row.session_id)})
        if row.run_id:
            yield RelatedRows(_("Tool calls in this run"), ToolCall, {"run": row.run_id})
            yield RelatedRows(_("Run events"), Event, {"run": row.run_id})


class SinceFilter(admin.SimpleListFilter):
    """Filter events by age. Events store milliseconds instead of a date, so Django's date filters don't apply."""

    title = _("time")
    parameter_name = "since"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("1", _("Last hour")), ("24", _("Last day")), ("168", _("Last week"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        hours = self.value()
        if hours not in ("1", "24", "168"):
            return queryset
        return queryset.filter(ts__gte=clock.to_ms(clock.now() - timedelta(hours=int(hours))))


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ["id", SESSION, "cursor", RUN, "seq", "stream", "phase", "when"]
    list_filter = ["stream", SinceFilter]
    search_fields = ["session__key", "run__run_id"]
    search_help_text = _("Session key or run ID")
    list_select_related = ["session", "run"]
    ordering = ["-id"]
    fieldsets = [
        (None, {"fields": [("session", "cursor"), ("run", "seq"), ("stream", "when")]}),
        (_("Event data"), {"fields": ["data"]}),
    ]

    @admin.display(description=_("phase"))
    def phase(self, event: Event) -> str:
        data = event.data if isinstance(event.data, dict) else {}
        return str(data.get("phase") or data.get("change") or EMPTY)

    @admin.display(description=_("time"), ordering="ts")
    def when(self, event: Event) -> str:
        return format_db_time(event.ts / 1000)

    def related_links(self, row: Event) -> Iterable[RelatedRows]:
        yield RelatedRows(_("Session events"), Event, {"session": str(row.session_id)})
        if row.run_id:
            yield RelatedRows(_("Run events"), Event, {"run": row.run_id})
            yield RelatedRows(_("Tool calls in this run"), ToolCall, {"run": row.run_id})


@admin.register(Attachment)
class AttachmentAdmin(ReadOnlyAdmin):
    """Hidden from operators, because file names are user content."""

    list_display = ["name", OWNER, SESSION, "mime_type", "bytes", "created_at"]
    list_filter = ["is_image", "mime_type", ("session", admin.EmptyFieldListFilter)]
    search_fields = ["id", "name", "owner__username", "session__key", "sha256"]
    search_help_text = _("Name, owner, session key, ID or SHA-256")
    list_select_related = ["owner", "session"]
    date_hierarchy = "created_at"
    ordering = ["-created_at"]
    fieldsets = [
        (None, {"fields": ["name", ("owner", "session"), ("mime_type", "is_image", "bytes"), ("created_at", "saved_as")]}),
        (_("About"), {"fields": ["id", "sha256"]}),
    ]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_view_permission(request, obj) and request.user.has_perm("accounts.view_any_session")

    @admin.display(description=_("size"), ordering="size")
    def bytes(self, attachment: Attachment) -> str:
        return filesizeformat(attachment.size)

    def related_links(self, row: Attachment) -> Iterable[RelatedRows | PageLink]:
        yield PageLink(_("File"), "attachment", row.pk)
        if row.session_id:
            yield RelatedRows(_("Transcript"), TranscriptEntry, {"session": str(row.session_id)})


@admin.register(Outbox)
class OutboxAdmin(ReadOnlyAdmin):
    list_display = ["id", "channel", SESSION, RUN, OUTBOX_STATUS, "attempts", "created_at", "delivered_at"]
    list_filter = ["status", "channel"]
    search_fields = ["session__key", "run__run_id"]
    list_select_related = ["session", "run"]
    date_hierarchy = "created_at"
    ordering = ["-id"]
    fieldsets = [
        (None, {"fields": [("session", "run"), ("call_id", "part"), ("channel", "status", "attempts"), "error", "payload"]}),
        (_("Time"), {"fields": [("created_at", "delivered_at", "lease_ends"), "lease_token"]}),
    ]

    @admin.display(description=_("lease until"))
    def lease_ends(self, row: Outbox) -> str:
        return format_db_time(row.lease_until)


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = ["id", "host", "pid", "started_at", "seen_at", "draining", "version"]
    list_filter = ["draining", "version"]
    search_fields = ["id", "host"]
    date_hierarchy = "started_at"
    ordering = ["-started_at"]
    fieldsets = [
        (None, {"fields": ["id", ("host", "pid", "version"), ("started_at", "seen_at", "draining")]}),
        (_("Process"), {"fields": [("boot_id", "process_started")]}),
    ]

    @admin.display(description=_("last heartbeat"), ordering="heartbeat_at")
    def seen_at(self, worker: Worker) -> str:
        return format_db_time(worker.heartbeat_at)

    def related_links(self, row: Worker) -> Iterable[RelatedRows]:
        yield RelatedRows(_("Running now"), Run, {"worker": row.pk, "status": Run.Status.RUNNING.value})
        yield RelatedRows(_("All runs"), Run, {"worker": row.pk})


@admin.register(Freeze)
class FreezeAdmin(ReadOnlyAdmin):
    """History of freezes. They are created and lifted on separate pages, with a reason."""

    list_display = ["scope", "subject", "by_name", "reason", "at", "lifted_by_name", "lifted_reason", "lifted_at"]
    list_filter = ["scope"]
    search_fields = ["subject", "by_name", "reason", "lifted_reason"]
    search_help_text = _("Agent, run, user or reason")
    date_hierarchy = "at"
    ordering = ["-id"]


@admin.register(Lane)
class LaneAdmin(ClawAdmin):
    """Lane limits can be changed; lanes can't be added or removed."""

    list_display = ["name", "max_running", "warn_after_seconds", "running", "queued"]
    list_editable = ["max_running", "warn_after_seconds"]
    readonly_fields = ["name"]
    search_fields = ["name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Lane]:
        counted = {name: _count_runs(status) for name, status in (("running_now", "running"), ("queued_now", "accepted"))}
        lanes: QuerySet[Lane] = super().get_queryset(request)
        return lanes.annotate(**counted)

    @admin.display(description=_("running now"))
    def running(self, lane: Any) -> int:
        return int(lane.running_now)

    @admin.display(description=_("queued"))
    def queued(self, lane: Any) -> int:
        return int(lane.queued_now)

    def related_links(self, row: Lane) -> Iterable[RelatedRows]:
        yield RelatedRows(_("Running now"), Run, {"lane": row.pk, "status": Run.Status.RUNNING.value})
        yield RelatedRows(_("Queued"), Run, {"lane": row.pk, "status": Run.Status.ACCEPTED.value})

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def _count_runs(status: str) -> Any:
    """Count the runs of the outer lane with this status; both statuses used here have an index."""
    counts = Run.objects.filter(lane=OuterRef("pk"), status=status).order_by().values("lane").annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counts, output_field=IntegerField()), 0)
