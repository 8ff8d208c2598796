"""Form for a policy test, used by the admin and the policy pages. It shows service errors."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext_lazy

from tools_app.admin.policy_checks import SEEN_VERSION_FIELD, check_version, make_seen_version_field
from tools_app.models import PolicyTest
from tools_app.policy_store.policies import current_rules
from tools_app.policy_store.policy_tests import describe_failure, find_test_errors, normalize_test

if TYPE_CHECKING:  # Django's classes aren't generic at run time
    PolicyTestModelForm = forms.ModelForm[PolicyTest]
else:
    PolicyTestModelForm = forms.ModelForm


class PolicyTestForm(PolicyTestModelForm):
    seen_version = make_seen_version_field()

    class Meta:
        model = PolicyTest
        fields = ["name", "agent", "expected", "tool", "provider", "channel", "group", "sender", "sandboxed", "subagent"]
        help_texts = {"group": gettext_lazy("The group’s ID in the channel, or * for every group. Leave blank for a direct chat.")}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.is_bound:
            self.initial[SEEN_VERSION_FIELD] = current_rules().version

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        test = normalize_test(**cleaned)
        for error in find_test_errors(test):
            self.add_error(error.field, error.message)
        check_version(self, cleaned.get(SEEN_VERSION_FIELD))
        if not self.errors and (message := describe_failure(test)):
            self.add_error(None, message)
        return cleaned
