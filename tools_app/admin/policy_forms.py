"""Admin form for a policy rule. It shows service errors next to the fields."""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django import forms
from django.urls import reverse
from django.utils.translation import gettext_lazy

from tools_app.admin.policy_checks import SEEN_VERSION_FIELD, check_tests, check_version, make_seen_version_field
from tools_app.admin.policy_entries import EntriesField
from tools_app.models import ToolPolicy
from tools_app.policy.catalog import PROFILES
from tools_app.policy.rules import LIST_FIELDS, SCOPE_FIELDS
from tools_app.policy_store import policies
from tools_app.policy_store.checks import find_errors, normalize_row

if TYPE_CHECKING:  # unfold has no types, and Django's classes aren't generic at run time
    from django.forms import Select

    PolicyModelForm = forms.ModelForm[ToolPolicy]
else:
    from unfold.widgets import UnfoldAdminSelectWidget as Select

    PolicyModelForm = forms.ModelForm

FINDINGS_URL_NAME = "admin:tools_app_toolpolicy_findings"
# The stylesheet relies on these too: it hides an unused field while its placeholder is shown.
FIELD_EXAMPLES = {"subject": "main", "provider": "openai/gpt-5", "channel": "telegram", "group": "-100123456", "sender": "anna"}


def check_while_typing(form: forms.BaseForm, **scope: str) -> None:
    """Check the lists while the user types. `scope` has the scope fields that are not in the form."""
    for name in LIST_FIELDS:
        if name in form.fields:
            form.fields[name].widget.attrs["data-findings"] = f"{reverse(FINDINGS_URL_NAME)}?{urlencode(scope)}"


class ToolPolicyForm(PolicyModelForm):
    profile = forms.ChoiceField(
        label=gettext_lazy("Tool profile"),
        required=False,
        choices=[("", "—"), *((name, name) for name in PROFILES)],
        widget=Select,
        help_text=gettext_lazy("minimal: status only · coding: files, commands, sessions, memory · messaging · full: everything"),
    )
    also_allow = EntriesField(
        label=gettext_lazy("Also allow"),
        required=False,
        help_text=gettext_lazy(
            "One per line. Added to what the tool profile allows, for example `web_search` with the coding profile."
        ),
    )
    allow = EntriesField(
        label=gettext_lazy("Allow"),
        required=False,
        help_text=gettext_lazy(
            "One per line: a tool, `group:fs`, `sessions_*`, `*`. Only these remain allowed; leave blank for no limit."
        ),
    )
    deny = EntriesField(
        label=gettext_lazy("Deny"),
        required=False,
        help_text=gettext_lazy("One per line: `exec`, `group:runtime`. Overrides anything that is allowed."),
    )
    seen_version = make_seen_version_field()

    class Meta:
        model = ToolPolicy
        fields = [*SCOPE_FIELDS, "profile", *LIST_FIELDS]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.is_bound:
            self.initial[SEEN_VERSION_FIELD] = policies.current_rules().version
        for name, example in FIELD_EXAMPLES.items():
            if name in self.fields:
                self.fields[name].widget.attrs["placeholder"] = example
        check_while_typing(self, **{name: value for name in SCOPE_FIELDS if (value := getattr(self.instance, name))})

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        values = {name: cleaned.get(name, getattr(self.instance, name)) for name in (*SCOPE_FIELDS, "profile", *LIST_FIELDS)}
        rule = normalize_row(**values)
        for error in find_errors(rule):
            self.add_error(error.field if error.field in self.fields else None, error.message)
        # Normalize before Django checks for duplicates, so that " Main" counts as the agent main.
        cleaned |= {name: value for name, value in rule.to_json().items() if name in cleaned}
        check_version(self, cleaned.get(SEEN_VERSION_FIELD))
        if not self.errors:
            check_tests(self, rule)
        return cleaned
