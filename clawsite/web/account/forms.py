"""What people fill in about their own account. Checks what was written; `web.account` does it."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib.auth.forms import PasswordChangeForm
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.translation import gettext_lazy as _

from clawsite.accounts import groups
from clawsite.accounts.models import TOKEN_DAYS, User

# In the order in which they are offered; what each gives, in words for people.
SCOPE_WORDS = {
    groups.READ: _("Read conversations and follow runs"),
    groups.WRITE: _("Send messages, stop runs, change conversations"),
    groups.APPROVALS: _("Answer approvals"),
    groups.PAIRING: _("Pair devices"),
    groups.ADMIN: _("Administer the gateway"),
}


class ProfileForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only, not when it runs
    class Meta:
        model = User
        fields = ("display_name", "email")
        labels = {"display_name": _("Display name"), "email": _("E-mail")}
        help_texts = {"display_name": _("How Clawsite calls you. Empty: your user name.")}
        widgets = {
            "display_name": forms.TextInput(attrs={"autocomplete": "name"}),
            "email": forms.EmailInput(attrs={"autocomplete": "email"}),
        }


class NewPasswordForm(PasswordChangeForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["old_password"].label = _("Current password")
        self.fields["old_password"].widget.attrs.pop("autofocus", None)  # it is one form of several on its page
        self.fields["new_password1"].help_text = _("At least 8 characters, and nothing easily guessed.")
        self.fields["new_password2"].label = _("New password, once more")
        self.fields["new_password2"].help_text = ""


class NewTokenForm(forms.Form):
    name = forms.CharField(
        label=_("Name"), max_length=100, help_text=_("Which program will use it, so that you know later what to revoke.")
    )
    days = forms.TypedChoiceField(
        label=_("It works for"),
        coerce=int,
        initial=TOKEN_DAYS,
        choices=[(7, _("7 days")), (30, _("30 days")), (TOKEN_DAYS, _("90 days")), (365, _("1 year"))],
    )
    # Sent again by a reload: a page that shows a secret must not make a second one.
    form_id = forms.CharField(max_length=32, widget=forms.HiddenInput, initial=lambda: get_random_string(16))

    def __init__(self, user: User, data: Any = None) -> None:
        super().__init__(data, auto_id="token_%s")
        held = groups.scopes_of(user)
        choices = [(scope, words) for scope, words in SCOPE_WORDS.items() if scope in held]
        self.fields["scopes"] = forms.MultipleChoiceField(
            label=_("It may"), choices=choices, widget=forms.CheckboxSelectMultiple, initial=[groups.READ, groups.WRITE]
        )

    def expires_at(self) -> Any:
        return timezone.now() + timedelta(days=self.cleaned_data["days"])
