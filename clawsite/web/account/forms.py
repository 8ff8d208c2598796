"""Forms of the account page. They only validate input; clawsite.web.account.profile applies the changes."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib.auth.forms import PasswordChangeForm
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.translation import gettext_lazy as _

from clawsite.accounts import groups
from clawsite.accounts.models import TOKEN_DAYS, User

# In the order shown in the form.
SCOPE_LABELS = {
    groups.READ: _("Read chats and follow runs"),
    groups.WRITE: _("Send messages, stop runs, change chats"),
    groups.APPROVALS: _("Approve or deny requests"),
    groups.PAIRING: _("Pair devices"),
    groups.ADMIN: _("Manage this server"),
}


class ProfileForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only, not when it runs
    class Meta:
        model = User
        fields = ("display_name", "email")
        labels = {"display_name": _("Display name"), "email": _("Email")}
        help_texts = {"display_name": _("The name Clawsite uses for you. Leave blank to use your username.")}
        widgets = {
            "display_name": forms.TextInput(attrs={"autocomplete": "name"}),
            "email": forms.EmailInput(attrs={"autocomplete": "email"}),
        }


class NewPasswordForm(PasswordChangeForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["old_password"].label = _("Current password")
        self.fields["old_password"].widget.attrs.pop("autofocus", None)  # the page has several forms
        self.fields["new_password1"].help_text = _("At least 8 characters and not easy to guess.")
        self.fields["new_password2"].label = _("Confirm new password")
        self.fields["new_password2"].help_text = ""


class AccountTokenForm(forms.Form):
    name = forms.CharField(
        label=_("Name"), max_length=100, help_text=_("The program that will use it, so you know later which token to revoke.")
    )
    days = forms.TypedChoiceField(
        label=_("Valid for"),
        coerce=int,
        initial=TOKEN_DAYS,
        choices=[(7, _("7 days")), (30, _("30 days")), (TOKEN_DAYS, _("90 days")), (365, _("1 year"))],
    )
    # Identifies a resubmission: reloading the page with the secret must not create a second token.
    form_id = forms.CharField(max_length=32, widget=forms.HiddenInput, initial=lambda: get_random_string(16))

    def __init__(self, user: User, data: Any = None) -> None:
        super().__init__(data, auto_id="token_%s")
        held = groups.scopes_of(user)
        choices = [(scope, label) for scope, label in SCOPE_LABELS.items() if scope in held]
        self.fields["scopes"] = forms.MultipleChoiceField(
            label=_("Permissions"), choices=choices, widget=forms.CheckboxSelectMultiple, initial=[groups.READ, groups.WRITE]
        )

    def expires_at(self) -> Any:
        return timezone.now() + timedelta(days=self.cleaned_data["days"])
