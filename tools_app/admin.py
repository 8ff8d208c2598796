"""Operators edit policies here; versions can be read and never changed. All writing goes through tools_app.policies."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from clawsite.accounts.models import User
from clawsite.infra.admin_base import Around, ClawAdmin, ReadOnlyAdmin
from clawsite.infra.admin_display import EMPTY, link_column, link_to
from sessions_app.models import ToolCall
from tools_app import policies
from tools_app.models import PolicyVersion, ToolPolicy
from tools_app.policy.catalog import PROFILES
from tools_app.policy.rules import LISTS, PLACE
from tools_app.policy_checks import faults_of, normal_form

if TYPE_CHECKING:  # unfold brings no types, and Django's classes take no parameters at run time
    from django.forms import Select, Textarea

    PolicyModelForm = forms.ModelForm[ToolPolicy]
else:
    from unfold.widgets import UnfoldAdminSelectWidget as Select
    from unfold.widgets import UnfoldAdminTextareaWidget as Textarea

    PolicyModelForm = forms.ModelForm


class EntriesField(forms.CharField):
    """A list of entries, one a line."""

    widget = Textarea(attrs={"rows": 4})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str]:
        return [line.strip() for line in super().clean(value).splitlines() if line.strip()]


class ToolPolicyForm(PolicyModelForm):
    profile = forms.ChoiceField(
        label=_("Profile"), required=False, choices=[("", "—"), *((name, name) for name in PROFILES)], widget=Select
    )
    allow = EntriesField(
        label=_("Allow"), required=False, help_text=_("One a line: a tool, `group:fs`, `sessions_*`, `*`. Empty does not limit.")
    )
    deny = EntriesField(label=_("Deny"), required=False, help_text=_("One a line. Stronger than anything that is allowed."))
    also_allow = EntriesField(label=_("Also allow"), required=False, help_text=_("One a line. Added to what the profile allows."))
    # What the editor had before them: a change made meanwhile by somebody else is not overwritten unseen.
    seen_version = forms.IntegerField(label="", required=False, widget=forms.HiddenInput)

    class Meta:
        model = ToolPolicy
        fields = [*PLACE, "profile", *LISTS]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.is_bound:
            self.initial["seen_version"] = policies.current_rules().version

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        given = {name: cleaned.get(name, getattr(self.instance, name)) for name in (*PLACE, "profile", *LISTS)}
        rule = normal_form(**given)
        for fault in faults_of(rule):
            self.add_error(fault.field if fault.field in self.fields else None, fault.words)
        # In normal form before Django looks for a second row: " Main" is the agent main.
        cleaned |= {name: value for name, value in rule.to_json().items() if name in cleaned}
        seen = cleaned.get("seen_version")
        if seen is not None and seen != policies.current_rules().version:
            raise ValidationError(_("The policy was changed while you were editing. Reload the page and look at it again."))
        return cleaned


def _editor(request: HttpRequest) -> User:
    return cast(User, request.user)  # the admin admits nobody who is not signed in


@admin.register(ToolPolicy)
class ToolPolicyAdmin(ClawAdmin):
    form = ToolPolicyForm
    list_display = ["scope", "subject_link", "profile", *LISTS]
    list_filter = ["scope", "profile"]
    search_fields = ["subject", "profile"]
    ordering = ["scope", "subject"]
    fields = [*PLACE, "profile", *LISTS, "seen_version"]

    @admin.display(description=_("subject"), ordering="subject")
    def subject_link(self, policy: ToolPolicy) -> str:
        return link_to("agents", "agent", policy.subject, policy.subject) if policy.scope == ToolPolicy.Scope.AGENT else EMPTY

    def get_readonly_fields(self, request: HttpRequest, obj: ToolPolicy | None = None) -> list[str]:
        return [*PLACE] if obj else []

    def save_model(self, request: HttpRequest, obj: ToolPolicy, form: Any, change: bool) -> None:
        rule = obj.as_rule().to_json()
        saved = policies.save_policy(**rule, changed_by=_editor(request), expected_version=form.cleaned_data.get("seen_version"))
        obj.pk = saved.pk

    def delete_model(self, request: HttpRequest, obj: ToolPolicy) -> None:
        policies.delete_policy(**{name: getattr(obj, name) for name in PLACE}, changed_by=_editor(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[ToolPolicy]) -> None:
        for policy in queryset:
            self.delete_model(request, policy)


@admin.register(PolicyVersion)
class PolicyVersionAdmin(ReadOnlyAdmin):
    list_display = ["number", "created_at", link_column("changed_by", _("changed by")), "row_count"]
    list_filter = ["created_at"]
    search_fields = ["number", "changed_by__username"]
    list_select_related = ["changed_by"]
    date_hierarchy = "created_at"
    fields = ["number", ("created_at", "changed_by"), "snapshot"]

    @admin.display(description=_("rows"))
    def row_count(self, version: PolicyVersion) -> int:
        return len(version.snapshot)

    def around(self, row: PolicyVersion) -> Iterable[Around]:
        yield Around(_("Calls judged by it"), ToolCall, {"policy_version": row.number})
        yield Around(_("Refused by it"), ToolCall, {"policy_version": row.number, "status": ToolCall.Status.REFUSED.value})
