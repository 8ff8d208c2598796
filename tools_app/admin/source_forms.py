"""Forms for MCP servers and plugins. Lists have one item per line. tools_app.policy_store.source_changes validates the input."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from clawsite.infra.errors import ClawError, Conflict
from tools_app.models import McpServer, Plugin
from tools_app.policy_store import source_changes
from tools_app.sources.mcp import servers

if TYPE_CHECKING:  # unfold has no types, and Django's classes aren't generic at run time
    from django.forms import Textarea

    ServerModelForm = forms.ModelForm[McpServer]
    PluginModelForm = forms.ModelForm[Plugin]
else:
    from unfold.widgets import UnfoldAdminTextareaWidget as Textarea

    ServerModelForm = PluginModelForm = forms.ModelForm

HEADER_PATTERN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
VARIABLE_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class LinesField(forms.CharField):
    """A list with one item per line, because arguments may contain spaces."""

    widget = Textarea(attrs={"rows": 4})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str]:
        return [line.strip() for line in super().clean(value).splitlines() if line.strip()]


class PairsField(forms.CharField):
    """A name and a value on each line, separated by `mark`."""

    widget = Textarea(attrs={"rows": 3})

    def __init__(self, *, mark: str, name: re.Pattern[str], **options: Any) -> None:
        super().__init__(**options)
        self._mark, self._name = mark, name

    def prepare_value(self, value: Any) -> Any:
        separator = f"{self._mark} " if self._mark == ":" else self._mark
        return "\n".join(f"{name}{separator}{each}" for name, each in value.items()) if isinstance(value, dict) else value

    def clean(self, value: Any) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for line in super().clean(value).splitlines():
            name, mark, rest = (part.strip() for part in line.partition(self._mark))
            if not line.strip():
                continue
            if not mark or not self._name.fullmatch(name):
                raise ValidationError(
                    gettext("“%(line)s”: use the form NAME%(mark)sVALUE.") % {"line": line.strip()[:40], "mark": self._mark}
                )
            pairs[name] = rest
        return pairs


class McpServerForm(ServerModelForm):
    args = LinesField(label=_("Arguments"), required=False, help_text=_("One per line. Example: mcp-server-time"))
    env = PairsField(
        label=_("Environment"),
        required=False,
        mark="=",
        name=VARIABLE_PATTERN,
        help_text=_(
            "NAME=VALUE, one per line, added to PATH, HOME, LANG and similar variables. Keep secrets in the worker’s "
            "environment and refer to them by name: API_KEY=${WEATHER_API_KEY}"
        ),
    )
    headers = PairsField(
        label=_("Headers"),
        required=False,
        mark=":",
        name=HEADER_PATTERN,
        help_text=_("Name: value, one per line. Example: Authorization: Bearer ${WEATHER_TOKEN}"),
    )
    include = LinesField(
        label=_("Only these tools"),
        required=False,
        help_text=_("Tool names as the server defines them, one per line; get_* is allowed. Leave blank for all."),
    )
    exclude = LinesField(label=_("Exclude these tools"), required=False, help_text=_("One per line. Overrides the list above."))
    # The revision the user has seen, so that another user's change isn't overwritten.
    seen_revision = forms.IntegerField(label="", required=False, widget=forms.HiddenInput)

    class Meta:
        model = McpServer
        fields = ["name", *servers.SETTING_FIELDS]
        # Not the model's help text: the admin renders it as HTML and would treat `<name>` as a tag.
        help_texts = {
            "name": _(
                "Its tools are named weather__forecast etc., and policies can refer to the server by this name. Example: weather"
            )
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["seen_revision"] = self.instance.revision

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        settings = {name: value for name, value in cleaned.items() if name != "seen_revision"}
        server = McpServer(pk=self.instance.pk, **({"name": self.instance.name} | settings))
        try:
            _dry_run(source_changes.save_server, server, expected_revision=cleaned.get("seen_revision"))
        except ValidationError as error:
            if isinstance(error.__cause__, Conflict):
                self._renew_revision()
            raise
        return cleaned

    def _renew_revision(self) -> None:
        """Report another user's change only once: saving again overwrites it."""
        renewed = cast("QueryDict", self.data).copy()
        renewed["seen_revision"] = str(McpServer.objects.get(pk=self.instance.pk).revision)
        self.data = renewed


class PluginForm(PluginModelForm):
    class Meta:
        model = Plugin
        fields = ["enabled"]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if "enabled" in cleaned:
            _dry_run(source_changes.switch_plugins, [self.instance], on=cleaned["enabled"])
        return cleaned


def _dry_run(change: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    try:
        source_changes.dry_run(change, *args, **kwargs)
    except ClawError as error:
        raise ValidationError(error.message) from error
