"""Admin for policy rules and tests, and for viewing and restoring policy versions. All changes go through services."""

from collections.abc import Iterable
from typing import Any, cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from clawsite.accounts.models import User
from clawsite.infra.admin.base import PageLink, ReadOnlyAdmin, RelatedRows
from clawsite.infra.admin.display import EMPTY, link_column, link_to
from sessions_app.models import ToolCall
from tools_app.admin.base import VersionedAdmin
from tools_app.admin.policy_forms import ToolPolicyForm
from tools_app.admin.policy_test_form import PolicyTestForm
from tools_app.models import PolicyTest, PolicyVersion, ToolPolicy
from tools_app.policy.expectations import Expectation
from tools_app.policy.rules import LIST_FIELDS, SCOPE_FIELDS
from tools_app.policy_store import policies, policy_tests
from tools_app.policy_store.checks import find_errors, find_warnings, normalize_row, parse_entries


def _current_user(request: HttpRequest) -> User:
    return cast(User, request.user)  # the admin requires signing in


@admin.register(ToolPolicy)
class ToolPolicyAdmin(VersionedAdmin):
    audited_as = ""  # tools_app.policy_store.policies records the changes
    form = ToolPolicyForm
    list_display = ["scope_label", "scope", "subject_link", "profile", *LIST_FIELDS]
    list_filter = ["scope", "profile"]
    search_fields = ["subject", "provider", "channel", "group", "sender", "profile"]
    ordering = list(SCOPE_FIELDS)
    fieldsets = [
        (
            _("Scope"),
            {
                "fields": list(SCOPE_FIELDS),
                "description": _("One rule per scope. A tool must be allowed by the rules of all scopes that apply."),
            },
        ),
        (_("Allowed and denied tools"), {"fields": ["profile", "also_allow", "allow", "deny", "seen_version"]}),
    ]

    @admin.display(description=_("scope"), ordering="scope")
    def scope_label(self, policy: ToolPolicy) -> str:
        return policy.as_rule().key

    @admin.display(description=_("agent"), ordering="subject")
    def subject_link(self, policy: ToolPolicy) -> str:
        return link_to("agents", "agent", policy.subject, policy.subject) if policy.scope == ToolPolicy.Scope.AGENT else EMPTY

    def related_links(self, row: ToolPolicy) -> Iterable[PageLink]:
        yield PageLink(_("Tool access explained"), "policies")

    def get_readonly_fields(self, request: HttpRequest, obj: ToolPolicy | None = None) -> list[str]:
        return [*SCOPE_FIELDS] if obj else []

    def get_urls(self) -> list[URLPattern]:
        findings = path("findings/", self.admin_site.admin_view(self.findings), name="tools_app_toolpolicy_findings")
        return [findings, *super().get_urls()]

    def findings(self, request: HttpRequest) -> HttpResponse:
        """Return the errors and warnings about the rule in the form; called by the script when the user stops typing."""
        if not self.has_view_permission(request):
            return JsonResponse({}, status=403)
        values: dict[str, Any] = {name: request.GET.get(name, "") for name in (*SCOPE_FIELDS, "profile")}
        rule = normalize_row(**values, **{name: parse_entries(request.GET.get(name, "")) for name in LIST_FIELDS})
        findings = list(find_errors(rule)) or list(find_warnings(rule, policies.current_rules()))
        return JsonResponse({"findings": [{"field": each.field, "words": each.message, "level": each.level} for each in findings]})

    def save_model(self, request: HttpRequest, obj: ToolPolicy, form: Any, change: bool) -> None:
        rule = obj.as_rule()
        warnings = list(find_warnings(rule, policies.current_rules()))
        seen = form.cleaned_data.get("seen_version")
        obj.pk = policies.save_policy(**rule.to_json(), changed_by=_current_user(request), expected_version=seen).pk
        for warning in warnings:
            self.message_user(request, warning.message, messages.WARNING)

    def delete_model(self, request: HttpRequest, obj: ToolPolicy) -> None:
        scope = {name: getattr(obj, name) for name in SCOPE_FIELDS}
        policies.delete_policy(**scope, changed_by=_current_user(request), expected_version=self.seen_version(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[ToolPolicy]) -> None:
        for policy in queryset:
            self.delete_model(request, policy)


@admin.register(PolicyTest)
class PolicyTestAdmin(VersionedAdmin):
    when_empty = _(
        "A test states what the policy must always allow or deny; it runs before a change is published. Add one here or under "
        "“Tool access explained”."
    )
    audited_as = ""  # tools_app.policy_store.policy_tests records the changes
    form = PolicyTestForm
    list_filter = ["expected"]
    search_fields = ["name", "agent", "tool"]
    fieldsets = [
        (
            _("Expected result"),
            {
                "fields": ["name", "agent", "expected", "tool", "seen_version"],
                "description": _("A version that breaks a test is not published. A test that fails now is not saved."),
            },
        ),
        (_("Only applies to"), {"fields": ["provider", ("channel", "group", "sender"), ("sandboxed", "subagent")]}),
    ]

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        labels = {"broken": gettext("fails"), "idle": gettext("idle: tool not available"), "holds": gettext("passes")}
        states = {each.test.pk: each.state for each in policy_tests.check_all_tests()}

        @admin.display(description=_("state"))
        def state(test: PolicyTest) -> tuple[str, str]:
            return states[test.pk], labels[states[test.pk]]

        state.label = {"broken": "danger", "idle": "info", "holds": "success"}  # type: ignore[attr-defined]  # unfold's colored labels
        return ["name", state, "agent", "expected", "tool", "provider", "group", "sender"]

    def save_model(self, request: HttpRequest, obj: PolicyTest, form: Any, change: bool) -> None:
        fields = {name: getattr(obj, name) for name in (*Expectation.TEXT_FIELDS, *Expectation.FLAG_FIELDS)}
        seen = form.cleaned_data.get("seen_version")
        obj.pk = policy_tests.save_test(obj.pk, **fields, changed_by=_current_user(request), expected_version=seen).pk

    def delete_model(self, request: HttpRequest, obj: PolicyTest) -> None:
        policy_tests.delete_test(obj.pk, changed_by=_current_user(request), expected_version=self.seen_version(request))


@admin.register(PolicyVersion)
class PolicyVersionAdmin(ReadOnlyAdmin):
    list_display = ["number", "created_at", link_column("changed_by", _("changed by")), "change", "row_count"]
    list_filter = ["created_at"]
    search_fields = ["number", "changed_by__username", "change"]
    list_select_related = ["changed_by"]
    date_hierarchy = "created_at"
    fields = ["number", ("created_at", "changed_by", "change"), "snapshot", "tests"]
    actions = ["restore"]

    @admin.display(description=_("rules"))
    def row_count(self, version: PolicyVersion) -> int:
        return len(version.snapshot)

    def related_links(self, row: PolicyVersion) -> Iterable[RelatedRows | PageLink]:
        yield PageLink(_("Changes and restore"), "policy-version", row.number)
        yield RelatedRows(_("Tool calls under this version"), ToolCall, {"policy_version": row.number})
        yield RelatedRows(
            _("Tool calls denied under this version"),
            ToolCall,
            {"policy_version": row.number, "status": ToolCall.Status.REFUSED.value},
        )

    def has_restore_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tools_app.change_toolpolicy")

    @admin.action(description=_("Restore this version"), permissions=["restore"])
    def restore(self, request: HttpRequest, queryset: QuerySet[PolicyVersion]) -> HttpResponse:
        """Open the version's page, which shows the changes and asks for confirmation. With several selected, open the history."""
        chosen = list(queryset[:2])
        if len(chosen) == 1:
            return redirect(reverse("policy-version", args=[chosen[0].number]) + "#restore")
        self.message_user(request, gettext("Choose one version to restore."), messages.ERROR)
        return redirect("policy-history")
