"""What happened, to look at. Rows of the state layer are written by services only, so nothing here can be added or changed."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext as _

from sessions_app.models import Event, Lane, Outbox, Run, Session, ToolCall, TranscriptEntry, Worker


class ReadOnlyAdmin(admin.ModelAdmin):
    show_full_result_count = False  # counting millions of events costs more than the page
    words: tuple[str, ...] = ()  # fields with what people wrote: for those who may read every session

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if request.user.has_perm("accounts.view_any_session") else self.words

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        hidden = self.get_exclude(request)
        return [name for name in self.list_display if name not in hidden]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    words = ("title", "label", "origin", "settings")
    list_display = ["key", "owner", "title", "model", "input_tokens", "output_tokens", "updated_at", "deleted_at"]
    list_filter = ["agent", "channel"]
    search_fields = ["key", "owner__username"]
    list_select_related = ["owner"]


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    words = ("prompt", "options", "error")
    list_display = ["id", "run_id", "session", "owner", "lane", "status", "reason", "rescues", "model", "accepted_at", "ended_at"]
    list_filter = ["status", "lane", "reason"]
    search_fields = ["run_id", "session__key", "owner__username"]
    list_select_related = ["session", "owner"]


@admin.register(ToolCall)
class ToolCallAdmin(ReadOnlyAdmin):
    """Why a call was allowed or refused: the question, every layer's answer and the policy version it was judged by."""

    words = ("arguments", "result")
    list_display = ["name", "status", "refused_by", "why", "policy_version", "session", "run", "created_at"]
    list_filter = ["status", "name", "refused_by"]
    search_fields = ["call_id", "name", "run__run_id"]
    list_select_related = ["run", "session"]
    readonly_fields = ["why"]

    @admin.display(description=_("decision"))
    def why(self, call: ToolCall) -> str:
        """The step that decided, in the words of the policy page."""
        steps = call.verdict.get("trace", {}).get(call.name, [])
        refused = next((step for step in steps if step["effect"] == "deny"), None)
        if refused:
            return str(_("refused by layer %(layer)s: %(rule)s") % refused)
        return _("allowed: no layer refuses it") if steps else _("not offered in this run")


@admin.register(TranscriptEntry)
class TranscriptEntryAdmin(ReadOnlyAdmin):
    list_display = ["id", "session", "position", "kind", "role", "created_at"]
    list_filter = ["kind", "role"]
    search_fields = ["session__key", "message_id"]
    list_select_related = ["session"]


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ["id", "session", "cursor", "run", "seq", "stream"]
    list_filter = ["stream"]
    search_fields = ["session__key", "run__run_id"]
    list_select_related = ["session", "run"]


@admin.register(Outbox)
class OutboxAdmin(ReadOnlyAdmin):
    list_display = ["id", "channel", "session", "status", "attempts", "created_at", "delivered_at"]
    list_filter = ["status", "channel"]
    list_select_related = ["session"]


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = ["id", "host", "pid", "started_at", "draining", "version"]


@admin.register(Lane)
class LaneAdmin(admin.ModelAdmin):
    """The maxima may be changed; which lanes there are may not."""

    list_display = ["name", "max_running", "warn_after_seconds"]
    list_editable = ["max_running", "warn_after_seconds"]
    readonly_fields = ["name"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
