"""Webhook forms in the admin. The service validates the input; secrets are never shown again."""

from typing import TYPE_CHECKING, Any

import orjson
from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clawsite.accounts.models import User
from clawsite.connectors.webhook import service
from clawsite.connectors.webhook.models import Hook
from clawsite.connectors.webhook.presets import PRESETS

if TYPE_CHECKING:  # unfold has no types, and Django's classes take no type parameters at run time
    from django.forms import CheckboxInput as Tick
    from django.forms import PasswordInput, Textarea, TextInput

    HookModelForm = forms.ModelForm[Hook]
else:
    from unfold.widgets import UnfoldAdminPasswordWidget as PasswordInput
    from unfold.widgets import UnfoldAdminTextareaWidget as Textarea
    from unfold.widgets import UnfoldAdminTextInputWidget as TextInput
    from unfold.widgets import UnfoldBooleanWidget as Tick

    HookModelForm = forms.ModelForm


class WebhookForm(HookModelForm):
    account = forms.CharField(
        label=gettext_lazy("Account"),
        required=False,
        widget=TextInput,
        help_text=gettext_lazy(
            "Username. Once they authorize it, the webhook writes to their chats. Leave blank for an account used only by webhooks."
        ),
    )
    make_token = forms.BooleanField(
        label=gettext_lazy("Create a new token"),
        required=False,
        widget=Tick,
        help_text=gettext_lazy("Shown once, after saving. The current token stops working immediately."),
    )
    secret = forms.CharField(
        label=gettext_lazy("Signing secret"),
        required=False,
        strip=False,
        max_length=500,
        widget=PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("Must match the sender’s. Never shown again; leave blank to keep the current one."),
    )

    # The version the editor opened, so that another user's change is not overwritten.
    seen_version = forms.CharField(label="", required=False, widget=forms.HiddenInput)

    class Meta:
        model = Hook
        exclude = ["owner"]
        widgets = {"signature_header": TextInput, "delivery_header": TextInput}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial.update(account=self.instance.owner.username, seen_version=self.instance.seen)
        else:
            self.initial.setdefault("make_token", True)

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        if self.instance.pk and given.get("seen_version") != self.instance.seen:
            raise ValidationError(service.conflict_message())
        name = given.get("account", "").strip()
        owner = User.objects.filter(username=name).first() if name else service.find_default_owner()
        if owner is None:
            self.add_error("account", _("There is no account with this name."))
            return given
        self.instance.owner = owner
        return given

    def _post_clean(self) -> None:
        """Validate the instance after the input was assigned to it."""
        super()._post_clean()  # type: ignore[misc]  # missing in Django's stubs
        if self.errors:
            return
        faults = service.validate_webhook(
            self.instance, secret=self.cleaned_data["secret"], makes_token=self.cleaned_data["make_token"]
        )
        for field, words in faults.items():
            field = "account" if field == "owner" else field
            self.add_error(field if field in self.fields else None, words)


class TestDeliveryForm(forms.Form):
    """A test delivery."""

    body = forms.CharField(label=gettext_lazy("Body (JSON)"), widget=Textarea(attrs={"rows": 10, "spellcheck": "false"}))
    headers = forms.CharField(
        label=gettext_lazy("Headers"),
        required=False,
        widget=Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text=gettext_lazy("Name: value, one per line"),
    )

    def clean_body(self) -> bytes:
        body = str(self.cleaned_data["body"]).encode(errors="replace")
        try:
            orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise ValidationError(_("Invalid JSON: %s") % error) from None
        return body

    def clean_headers(self) -> dict[str, str]:
        pairs = [line.partition(":") for line in str(self.cleaned_data["headers"]).splitlines() if ":" in line]
        return {name.strip().lower(): value.strip() for name, _colon, value in pairs}


def sample_delivery(hook: Hook) -> dict[str, str]:
    """Return initial values for a test delivery: the sample of the preset with the same template."""
    if hook.slug in ("wake", "agent"):
        sample: dict[str, Any] = (
            {"text": "The door opened."} if hook.slug == "wake" else {"message": "The door opened.", "name": "Door"}
        )
        return {"body": _format_sample(sample), "headers": ""}
    same = [each for each in PRESETS.values() if each.fields["message_template"] == hook.message_template]
    preset = same[0] if same else PRESETS["json"]
    return {
        "body": _format_sample(preset.sample),
        "headers": "\n".join(f"{name}: {value}" for name, value in preset.headers.items()),
    }


def _format_sample(sample: dict[str, Any]) -> str:
    return orjson.dumps(sample, option=orjson.OPT_INDENT_2).decode()
