"""Admin for exec rules and grants, and read-only for approval requests, votes and commands. All changes go through services."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, cast

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from clawsite.accounts.models import User
from clawsite.infra import clock
from clawsite.infra.admin.actions import ActionPreview, with_confirmation
from clawsite.infra.admin.base import ClawAdmin, PageLink, ReadOnlyAdmin, ReadOnlyInline, RelatedRows
from clawsite.infra.admin.display import link_column
from tools_app.admin.base import VersionedAdmin
from tools_app.admin.exec_forms import ExecRuleForm, GrantForm
from tools_app.approvals import grants
from tools_app.exec.rules import delete_rule, record_groups, save_rule
from tools_app.models import Approval, ApprovalVote, Command, ExecRule, Grant

SCOPE_FIELDS = ["scope", "subject"]


def _current_user(request: HttpRequest) -> User:
    return cast(User, request.user)  # the admin requires signing in


@admin.register(ExecRule)
class ExecRuleAdmin(VersionedAdmin):
    when_empty = _("No rules: every command is denied. Add one, or let an agent request commands on the Approvals page.")
    audited_as = ""  # tools_app.exec.rules records the changes
    form = ExecRuleForm
    list_display = [
        "scope_label",
        "security",
        "ask",
        "two_people",
        "network",
        "minimum_level",
        "updated_at",
        link_column("updated_by", _("updated by")),
    ]
    list_filter = ["scope", "security", "ask"]
    search_fields = ["subject"]
    list_select_related = ["updated_by"]
    ordering = ["scope", "subject"]
    filter_horizontal = ["approver_groups"]
    fieldsets = [
        (
            _("Scope"),
            {
                "fields": [(*SCOPE_FIELDS,)],
                "description": _("One rule per scope. Empty fields don’t apply; the strictest rule wins."),
            },
        ),
        (_("Command execution"), {"fields": ["security", "ask", "ask_fallback", "seen_version"]}),
        (_("Approvers"), {"fields": ["approver_groups", ("exclude_requester", "two_people"), "expires_seconds"]}),
        (
            _("Sandbox and limits"),
            {"fields": ["minimum_level", ("network", "timeout_seconds"), "unsafe_without_isolation"]},
        ),
        (_("Isolated workspaces"), {"fields": ["sandbox_mode", "sandbox_scope", "workspace_access"]}),
    ]

    @admin.display(description=_("scope"), ordering="scope")
    def scope_label(self, rule: ExecRule) -> str:
        return str(rule)

    def related_links(self, row: ExecRule) -> Iterable[PageLink]:
        yield PageLink(_("Approvals"), "approvals")
        yield PageLink(_("Try a command"), "try-command")

    def get_readonly_fields(self, request: HttpRequest, obj: ExecRule | None = None) -> list[str]:
        return SCOPE_FIELDS if obj else []

    def save_model(self, request: HttpRequest, obj: ExecRule, form: Any, change: bool) -> None:
        save_rule(obj, by=_current_user(request), expected_version=form.cleaned_data["seen_version"] if change else None)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if "approver_groups" in form.changed_data:
            record_groups(form.instance, by=_current_user(request))

    def current_version(self, request: HttpRequest, object_id: str) -> int | None:
        rule = self.get_object(request, unquote(object_id))
        return rule.version if rule else None

    def delete_model(self, request: HttpRequest, obj: ExecRule) -> None:
        delete_rule(obj, by=_current_user(request), expected_version=self.seen_version(request))

    def _plugins_for(self, request: HttpRequest, object_id: str | None) -> list[str]:
        return []  # exec rules don't refer to tools


def _preview_revocation(request: HttpRequest, grant: Grant) -> ActionPreview:
    if grant.revoked_at:
        return ActionPreview(_("Already revoked"), acts=False)
    return ActionPreview(_("Will be revoked"))


@admin.register(Grant)
class GrantAdmin(ClawAdmin):
    """Grants can be added and revoked but not changed or deleted, so that there is a record of what was allowed."""

    when_empty = _(
        "No grants yet: every command needs approval. Add programs that can run without approval, or let approvers grant them "
        "when they approve requests."
    )
    form = GrantForm
    list_display = [
        "__str__",
        "scope",
        "subject",
        "agent",
        link_column("owner", _("granted by")),
        "expires_at",
        "uses_left",
        "uses",
        "revoked_at",
    ]
    list_filter = ["scope", "created_at"]
    search_fields = ["subject", "agent", "line", "note", "owner__username"]
    list_select_related = ["owner"]
    date_hierarchy = "created_at"
    ordering = ["-created_at"]
    actions = ["revoke"]
    add_fieldsets = [
        (_("Allowed programs"), {"fields": ["programs"]}),
        (_("Scope"), {"fields": [("scope", "subject"), "agent"]}),
        (_("Valid for"), {"fields": [("days", "uses_left"), "note"]}),
    ]
    view_fields = [
        "entries",
        "line",
        ("scope", "subject", "agent"),
        ("owner", "seconded_by", "from_answer"),
        ("approval", "note"),
        ("created_at", "expires_at", "uses_left"),
    ]
    view_fields += [("uses", "last_used_at"), ("revoked_at", "revoked_by")]

    def get_fieldsets(self, request: HttpRequest, obj: Grant | None = None) -> Any:
        return [(None, {"fields": self.view_fields})] if obj else self.add_fieldsets

    def has_change_permission(self, request: HttpRequest, obj: Grant | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Grant | None = None) -> bool:
        return False

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tools_app.change_grant") or request.user.has_perm("accounts.approve_commands")

    def save_model(self, request: HttpRequest, obj: Grant, form: Any, change: bool) -> None:
        cleaned = form.cleaned_data
        grant = grants.add_manually(
            cleaned["programs"],
            by=_current_user(request),
            scope=cleaned["scope"],
            subject=cleaned["subject"],
            agent=cleaned["agent"],
            note=cleaned["note"],
            expires_at=clock.now() + timedelta(days=cleaned["days"]) if cleaned["days"] else None,
            uses=cleaned["uses_left"],
        )
        obj.pk = grant.pk

    @with_confirmation(
        label=_("Revoke"),
        warning=_("Running commands continue. The next matching command will need approval."),
        permission="revoke",
        preview=_preview_revocation,
    )
    @transaction.atomic
    def revoke(self, request: HttpRequest, chosen: list[Grant]) -> str:
        for grant in chosen:
            grants.revoke_grant(grant.pk, by=_current_user(request))
        return gettext("Revoked: %(count)d") % {"count": len(chosen)}


class VoteInline(ReadOnlyInline):
    model = ApprovalVote
    fields = ["user", "at", "wish"]
    readonly_fields = ["user", "at", "wish"]


@admin.register(Approval)
class ApprovalAdmin(ReadOnlyAdmin):
    list_display = [
        "created_at",
        "status",
        "tool",
        "agent",
        link_column("requester", _("requested by")),
        "decision",
        link_column("decided_by", _("decided by")),
        "decided_at",
    ]
    list_filter = ["status", "decision", "created_at"]
    search_fields = ["id", "agent", "requester__username", "decided_by__username", "plan_hash"]
    list_select_related = ["requester", "decided_by"]
    date_hierarchy = "created_at"
    ordering = ["-created_at"]
    private_fields = ("plan", "shown", "why", "reason", "system_reason")
    inlines = [VoteInline]

    def related_links(self, row: Approval) -> Iterable[RelatedRows | PageLink]:
        yield PageLink(_("Request details"), "approval", row.pk)
        yield RelatedRows(_("Grants"), Grant, {"approval": str(row.pk)})


@admin.register(Command)
class CommandAdmin(ReadOnlyAdmin):
    when_empty = _(
        "No commands have been started yet. Let an agent request commands under Approvals, then write “run ls -la” in the chat."
    )
    list_display = ["name", "status", "exit_code", "signal", "background", "worker", "started_at", "ended_at"]
    list_filter = ["status", "background", "started_at"]
    search_fields = ["name", "plan_hash", "worker"]
    date_hierarchy = "started_at"
    ordering = ["-started_at"]
    private_fields = ("plan",)
