"""Admin forms for exec rules and grants. They show service errors next to the fields."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from sessions_app.models import Session
from tools_app.approvals.grants import MAX_USES, find_pattern_error
from tools_app.models import ExecRule, Grant

if TYPE_CHECKING:  # unfold has no types, and Django's classes aren't generic at run time
    from django.forms import NumberInput as Number
    from django.forms import Textarea

    RuleModelForm = forms.ModelForm[ExecRule]
    GrantModelForm = forms.ModelForm[Grant]
else:
    from unfold.widgets import UnfoldAdminIntegerFieldWidget as Number
    from unfold.widgets import UnfoldAdminTextareaWidget as Textarea

    RuleModelForm = GrantModelForm = forms.ModelForm


class ExecRuleForm(RuleModelForm):
    seen_version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    class Meta:
        model = ExecRule
        exclude = ["version", "updated_by"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["seen_version"] = self.instance.version

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        row = self.instance
        if row.pk:
            version = ExecRule.objects.filter(pk=row.pk).values_list("version", flat=True).first()
            if cleaned.get("seen_version") != version:
                raise ValidationError(_("Another user changed this rule after you opened it. Reopen it to see the current rule."))
            return cleaned
        scope, subject = cleaned.get("scope", ""), cleaned.get("subject", "").strip()
        cleaned["subject"] = subject
        if error := find_scope_error(scope, subject):
            self.add_error("subject", error)
        return cleaned


class GrantForm(GrantModelForm):
    programs = forms.CharField(
        label=gettext_lazy("Programs"),
        widget=Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text=gettext_lazy(
            "One per line: a name such as git, a real path, or a pattern such as /usr/bin/python3*. Arguments are still "
            "checked: safe arguments run, others need approval."
        ),
    )

    days = forms.IntegerField(
        label=gettext_lazy("Valid for (days)"),
        required=False,
        min_value=1,
        max_value=3650,
        widget=Number,
        help_text=gettext_lazy("Leave blank for no expiration."),
    )

    class Meta:
        model = Grant
        fields = ["scope", "subject", "agent", "uses_left", "note"]

    def clean_programs(self) -> list[str]:
        patterns = [line.strip() for line in self.cleaned_data["programs"].split("\n") if line.strip()]
        errors = [error for pattern in patterns if (error := find_pattern_error(pattern))]
        if errors:
            raise ValidationError(errors)
        return patterns

    def clean_uses_left(self) -> int | None:
        uses: int | None = self.cleaned_data["uses_left"]
        if uses is not None and not 1 <= uses <= MAX_USES:
            raise ValidationError(_("The number of uses must be between 1 and %(most)d.") % {"most": MAX_USES})
        return uses

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        scope, subject = cleaned.get("scope", ""), cleaned.get("subject", "").strip()
        cleaned["subject"] = subject
        if scope == Grant.Scope.DIRECTORY:
            if not subject.startswith("/"):
                self.add_error("subject", _("Enter the full path of the directory."))
        elif error := find_scope_error(scope, subject):
            self.add_error("subject", error)
        return cleaned


def find_scope_error(scope: str, subject: str) -> str:
    """Return an error message if the subject doesn't fit the scope; empty otherwise."""
    if scope == ExecRule.Scope.INSTALLATION:
        return _("Leave this blank: the scope includes everyone.") if subject else ""
    if not subject:
        return _("Enter an agent or session.")
    if scope == ExecRule.Scope.SESSION and not _session_exists(subject):
        return _("Session not found. Its ID is on its page in the admin.")
    return ""


def _session_exists(subject: str) -> bool:
    try:
        return Session.objects.filter(pk=UUID(subject)).exists()
    except ValueError:
        return False
