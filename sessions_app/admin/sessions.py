"""Read-only admin pages for sessions, their runs and tool calls.

Operators see verdicts but not message text; users who may view any session see both. Bulk actions go through the services.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext, pgettext_lazy

from clawsite.infra.admin.actions import ActionPreview, with_confirmation
from clawsite.infra.admin.base import PageLink, ReadOnlyAdmin, ReadOnlyInline, RelatedRows
from clawsite.infra.admin.display import EMPTY, change_link, format_db_time, format_seconds_between, format_usd, link_to, page_link
from clawsite.infra.models import AuditEntry
from sessions_app.admin.display import CALL_STATUS, OWNER, RUN, RUN_STATUS, SESSION, format_decision
from sessions_app.keys import parse_key
from sessions_app.models import Attachment, Event, Outbox, Run, RunWait, Session, SessionMember, ToolCall, TranscriptEntry
from sessions_app.runs import lifecycle  # log.py registers the other tables
from sessions_app.sessions import marks
from sessions_app.sessions import service as session_service

if TYPE_CHECKING:
    from django.contrib.admin import RelatedFieldListFilter as OneOfMany
else:
    from unfold.contrib.filters.admin import AutocompleteSelectFilter as OneOfMany

BY_OPERATOR = "operator"  # end reason of a run stopped from the admin


class MemberInline(ReadOnlyInline):
    model = SessionMember
    fields = ("user", "role")
    verbose_name_plural = _("members")


def _preview_deletion(request: HttpRequest, session: Session) -> ActionPreview:
    if session.deleted_at:
        return ActionPreview(_("Already deleted"), acts=False)
    if parse_key(session.key).kind == "main":
        return ActionPreview(_("Main session; only its owner can reset it"), acts=False)
    return ActionPreview(_("Will be removed from %(owner)s’s list and its runs stopped") % {"owner": session.owner})


def _preview_archiving(request: HttpRequest, session: Session) -> ActionPreview:
    if session.deleted_at:
        return ActionPreview(_("Deleted"), acts=False)
    return ActionPreview(_("Will move to %(owner)s’s archive and can be unarchived") % {"owner": session.owner})


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    private_fields = ("title", "label", "origin", "settings")
    list_display = ["key", OWNER, "title", "agent_link", "channel", "tokens", "cost", "updated_at", "state"]
    list_filter = ["agent", "channel", ("deleted_at", admin.EmptyFieldListFilter), ("owner", OneOfMany)]
    list_filter_submit = True
    search_fields = ["key", "owner__username", "id"]
    search_help_text = _("Session key, owner or ID")
    list_select_related = ["owner"]
    date_hierarchy = "updated_at"
    ordering = ["-updated_at"]
    inlines = [MemberInline]
    actions = ["archive_sessions", "delete_sessions"]
    fieldsets = [
        (None, {"fields": [("owner", "agent_link"), "key", "id", "title", "label", ("channel", "origin")]}),
        (_("Model"), {"fields": [("model", "thinking_level", "verbose_level"), "settings"]}),
        (_("Usage"), {"fields": [("tokens", "cost"), ("entry_count", "cursor")]}),
        (_("Origin"), {"fields": ["parent", "spawn_depth", "forked_from", "generation", "generation_id"]}),
        (_("Time"), {"fields": [("created_at", "updated_at", "deleted_at")]}),
    ]

    @admin.display(description=_("state"), ordering="deleted_at")
    def state(self, session: Session) -> Any:
        return ("deleted", _("deleted")) if session.deleted_at else ("open", pgettext_lazy("state of a session", "open"))

    state.label = {"deleted": "danger", "open": "success"}  # type: ignore[attr-defined]  # unfold's colored labels

    @admin.display(description=_("agent"), ordering="agent")
    def agent_link(self, session: Session) -> str:
        return link_to("agents", "agent", session.agent, session.agent)

    @admin.display(description=_("input / output tokens"), ordering="input_tokens")
    def tokens(self, session: Session) -> str:
        return f"{session.input_tokens:,} / {session.output_tokens:,}"

    @admin.display(description=_("cost"), ordering="cost_microusd")
    def cost(self, session: Session) -> str:
        return format_usd(session.cost_microusd)

    def related_links(self, row: Session) -> Iterable[RelatedRows]:
        own = {"session": str(row.pk)}
        yield RelatedRows(_("Runs"), Run, own)
        yield RelatedRows(_("Tool calls"), ToolCall, own)
        yield RelatedRows(_("Transcript"), TranscriptEntry, own)
        yield RelatedRows(_("Events"), Event, own)
        yield RelatedRows(_("Attachments"), Attachment, own)
        yield RelatedRows(_("Outbox"), Outbox, own)
        yield RelatedRows(_("Subagents"), Session, {"parent": str(row.pk)})
        yield RelatedRows(_("Audit log"), AuditEntry, own)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("accounts.administer_gateway")

    @with_confirmation(
        label=_("Archive sessions"),
        warning=_("These sessions will move to their owners’ archives. No runs are stopped."),
        permission="operate",
        preview=_preview_archiving,
    )
    def archive_sessions(self, request: HttpRequest, rows: list[Session]) -> str:
        for session in rows:
            marks.mark_session(session.owner, session, archived=True)
            self.log_change(request, session, [{"changed": {"fields": ["archived"]}}])
        return ngettext("%d session was archived.", "%d sessions were archived.", len(rows)) % len(rows)

    @with_confirmation(
        label=_("Delete sessions"),
        warning=_("These sessions will be removed from their owners’ lists. Their data is kept until it is purged."),
        permission="operate",
        preview=_preview_deletion,
    )
    def delete_sessions(self, request: HttpRequest, rows: list[Session]) -> str:
        for session in rows:
            # The service requires the owner; the admin log records who did it.
            session_service.delete_session(session.owner, session)
            self.log_change(request, session, [{"changed": {"fields": ["deleted_at"]}}])
        return ngettext("%d session was deleted.", "%d sessions were deleted.", len(rows)) % len(rows)


def _preview_stop(request: HttpRequest, run: Run) -> ActionPreview:
    if run.status in Run.ENDED:
        return ActionPreview(_("Already ended: %(status)s") % {"status": run.get_status_display().lower()}, acts=False)
    if run.abort_requested_at:
        return ActionPreview(_("Already stopping"), acts=False)
    if run.status == Run.Status.RUNNING:
        return ActionPreview(_("Running; its worker will stop it within seconds"))
    return ActionPreview(
        _("Currently %(status)s; will be stopped immediately and can’t be resumed") % {"status": run.get_status_display().lower()}
    )


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    private_fields = ("prompt", "options", "error")
    list_display = ["id", "run_id", SESSION, OWNER, RUN_STATUS, "reason", "model", "duration", "cost", "accepted_at"]
    list_filter = ["status", "lane", "reason", ("owner", OneOfMany)]
    list_filter_submit = True
    search_fields = ["run_id", "session__key", "owner__username", "worker"]
    search_help_text = _("Run ID, session key, owner or worker")
    list_select_related = ["session", "owner"]
    date_hierarchy = "accepted_at"
    ordering = ["-id"]
    actions = ["abort_runs"]
    fieldsets = [
        (None, {"fields": [("session", "owner"), ("run_id", "lane"), ("status", "reason"), "error", "prompt", "options"]}),
        (_("Tool calls"), {"fields": ["calls"]}),
        (_("Usage"), {"fields": [("model", "tokens", "cost"), ("steps", "seq")]}),
        (_("Time"), {"fields": [("accepted_at", "started_at", "ended_at"), ("duration", "running_seconds", "timeout_seconds")]}),
        (
            _("Worker"),
            {
                "fields": [
                    ("worker", "rescues", "lease_token"),
                    ("lease_ends", "waits_for", "goes_on"),
                    ("stop_asked", "abort_reason"),
                ]
            },
        ),
        (_("Identifiers"), {"fields": ["generation", "request_hash"]}),
    ]

    @admin.display(description=_("duration"))
    def duration(self, run: Run) -> str:
        return format_seconds_between(run.started_at, run.ended_at)

    @admin.display(description=_("input / output tokens"))
    def tokens(self, run: Run) -> str:
        return f"{run.input_tokens:,} / {run.output_tokens:,}"

    @admin.display(description=_("cost"), ordering="cost_microusd")
    def cost(self, run: Run) -> str:
        return format_usd(run.cost_microusd)

    @admin.display(description=_("lease until"))
    def lease_ends(self, run: Run) -> str:
        return format_db_time(run.lease_until)

    @admin.display(description=_("waiting for"))
    def waits_for(self, run: Run) -> str:
        kind = RunWait.objects.main_kinds([run.pk]).get(run.pk)
        return str(RunWait.Kind(kind).label) if kind else EMPTY

    @admin.display(description=_("ready since"))
    def goes_on(self, run: Run) -> str:
        return format_db_time(run.ready_at)

    @admin.display(description=_("stop requested"))
    def stop_asked(self, run: Run) -> str:
        return format_db_time(run.abort_requested_at)

    @admin.display(description=_("in model order"))
    def calls(self, run: Run) -> str:
        """List the first 100 calls; a link leads to all of them."""
        calls_shown = run.tool_calls.order_by("position")[:100]
        lines = ((change_link(call, call.name), call.get_status_display(), format_decision(call)) for call in calls_shown)
        return format_html("<ul>{}</ul>", listed) if (listed := format_html_join("", "<li>{} · {} · {}</li>", lines)) else EMPTY

    def related_links(self, row: Run) -> Iterator[RelatedRows | PageLink]:
        yield PageLink(_("Run page"), "run", row.pk)
        own = {"run": row.pk}
        yield RelatedRows(_("Tool calls"), ToolCall, own)
        yield RelatedRows(_("Transcript"), TranscriptEntry, own)
        yield RelatedRows(_("Events"), Event, own)
        yield RelatedRows(_("Outbox"), Outbox, own)
        yield RelatedRows(_("Audit log"), AuditEntry, {"session": str(row.session_id), "run": row.pk})

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("accounts.administer_gateway")

    @with_confirmation(
        label=_("Stop runs"),
        warning=_("Completed steps are kept; pending steps won’t run."),
        permission="operate",
        preview=_preview_stop,
    )
    def abort_runs(self, request: HttpRequest, rows: list[Run]) -> str:
        ended = 0
        for run in rows:
            # The service requires the session's owner; the end reason and the log record that an operator did it.
            stops = lifecycle.request_abort(user=run.session.owner, session=run.session, run_id=run.run_id, reason=BY_OPERATOR)
            ended += sum(each.ended for each in stops)
            self.log_change(request, run, [{"changed": {"fields": ["abort_requested_at"]}}])
        summary = ngettext("Stop requested for %d run", "Stop requested for %d runs", len(rows)) % len(rows)
        return summary + ngettext("; %d has stopped.", "; %d have stopped.", ended) % ended


@admin.register(ToolCall)
class ToolCallAdmin(ReadOnlyAdmin):
    """Explain why a call was allowed or denied: the query, every layer's result and the policy version."""

    private_fields = ("arguments", "result")
    list_display = ["name", CALL_STATUS, "refused_by", "why", "version", SESSION, RUN, "duration", "created_at"]
    list_filter = ["status", "name", "refused_by", "is_error"]
    search_fields = ["call_id", "name", "run__run_id", "session__key"]
    search_help_text = _("Call ID, tool, run ID or session key")
    list_select_related = ["run", "session"]
    date_hierarchy = "created_at"
    ordering = ["-id"]
    fieldsets = [
        (None, {"fields": [("name", "status"), ("session", "run", "run_page"), ("call_id", "position")]}),
        (_("Arguments and result"), {"fields": ["arguments", "result", "is_error"]}),
        (_("Decision"), {"fields": ["why", ("refused_by", "version"), "query", "verdict"]}),
        (_("Time"), {"fields": [("created_at", "started_at", "ended_at", "duration"), "lease_token"]}),
    ]

    @admin.display(description=_("decision"))
    def why(self, call: ToolCall) -> str:
        return format_decision(call)

    @admin.display(description=_("policy version"), ordering="policy_version")
    def version(self, call: ToolCall) -> str:
        """Link by number, because the version's table belongs to a higher layer."""
        if not call.policy_version:
            return EMPTY
        address = reverse("admin:tools_app_policyversion_changelist")
        return format_html('<a class="text-link" href="{}?number={}">{}</a>', address, call.policy_version, call.policy_version)

    @admin.display(description=_("duration"))
    def duration(self, call: ToolCall) -> str:
        return format_seconds_between(call.started_at, call.ended_at)

    @admin.display(description=_("run page"))
    def run_page(self, call: ToolCall) -> str:
        return page_link("run", call.run_id, _("open")) or EMPTY

    def related_links(self, row: ToolCall) -> Iterable[RelatedRows | PageLink]:
        yield PageLink(_("Explain this decision"), "policy-call", row.pk)
        yield RelatedRows(_("Run events"), Event, {"run": row.run_id})
        yield RelatedRows(_("Other calls in this run"), ToolCall, {"run": row.run_id})
        yield RelatedRows(_("Run transcript"), TranscriptEntry, {"run": row.run_id})
