"""The forms of exec rules and grants in the admin. They refuse what the services would refuse, beside the field it is about."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from sessions_app.models import Session
from tools_app.approvals.grants import MOST_USES, fault_of
from tools_app.models import ExecRule, Grant

if TYPE_CHECKING:  # unfold brings no types, and Django's classes take no parameters at run time
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
        given: dict[str, Any] = super().clean() or {}
        row = self.instance
        if row.pk:
            now = ExecRule.objects.filter(pk=row.pk).values_list("version", flat=True).first()
            if given.get("seen_version") != now:
                raise ValidationError(
                    _("Somebody else has changed this rule since you opened it. Open it again to see what it says now.")
                )
            return given
        scope, subject = given.get("scope", ""), given.get("subject", "").strip()
        given["subject"] = subject
        if fault := place_fault(scope, subject):
            self.add_error("subject", fault)
        return given


class GrantForm(GrantModelForm):
    programs = forms.CharField(
        label=gettext_lazy("Programs"),
        widget=Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text=gettext_lazy(
            "One a line: a name such as git, a real path, or a pattern such as /usr/bin/python3*. "
            "What they may be given is still judged: harmless arguments run, others are asked about."
        ),
    )

    days = forms.IntegerField(
        label=gettext_lazy("For how many days"),
        required=False,
        min_value=1,
        max_value=3650,
        widget=Number,
        help_text=gettext_lazy("Empty: until it is taken back"),
    )

    class Meta:
        model = Grant
        fields = ["scope", "subject", "agent", "uses_left", "note"]

    def clean_programs(self) -> list[str]:
        named = [line.strip() for line in self.cleaned_data["programs"].split("\n") if line.strip()]
        faults = [fault for pattern in named if (fault := fault_of(pattern))]
        if faults:
            raise ValidationError(faults)
        return named

    def clean_uses_left(self) -> int | None:
        uses: int | None = self.cleaned_data["uses_left"]
        if uses is not None and not 1 <= uses <= MOST_USES:
            raise ValidationError(_("it can be allowed 1 to %(most)d times") % {"most": MOST_USES})
        return uses

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        scope, subject = given.get("scope", ""), given.get("subject", "").strip()
        given["subject"] = subject
        if scope == Grant.Scope.DIRECTORY:
            if not subject.startswith("/"):
                self.add_error("subject", _("name a directory by its whole path"))
        elif fault := place_fault(scope, subject):
            self.add_error("subject", fault)
        return given


def place_fault(scope: str, subject: str) -> str:
    """What is wrong with the subject of a scope, in words; empty when nothing is."""
    if scope == ExecRule.Scope.INSTALLATION:
        return _("leave it empty: it applies to everybody") if subject else ""
    if not subject:
        return _("name the agent or the session")
    if scope == ExecRule.Scope.SESSION and not _is_session(subject):
        return _("there is no such session; its id is on its page in the admin")
    return ""


def _is_session(subject: str) -> bool:
    try:
        return Session.objects.filter(pk=UUID(subject)).exists()
    except ValueError:
        return False
