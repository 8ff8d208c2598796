"""The agent form: the agent's own fields together with its tool policy.

Validates what would otherwise fail during a run. `tools_app.policy_store.policies` saves the tool policy.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.llm import prices
from agents.llm.base import ProviderError
from agents.llm.catalog import DEMO_MODEL, LITELLM_PREFIX, list_available_models, resolve_model
from agents.llm.endpoints import ENDPOINTS, LITELLM_KEYS
from agents.models import Agent
from clawsite.infra.protected_paths import code_paths, secret_paths
from sessions_app.sessions.service import THINKING_LEVELS
from tools_app.admin.policy_checks import SEEN_VERSION_FIELD, check_tests, check_version, make_seen_version_field
from tools_app.admin.policy_entries import EntriesField
from tools_app.admin.policy_forms import check_while_typing
from tools_app.policy.catalog import PROFILES
from tools_app.policy.rules import LIST_FIELDS, RuleRow
from tools_app.policy_store import policies
from tools_app.policy_store.checks import find_errors, normalize_row

if TYPE_CHECKING:  # unfold has no type hints, and Django's classes can't be subscripted at runtime
    from django.forms import Select, TextInput

    AgentModelForm = forms.ModelForm[Agent]
else:
    from unfold.widgets import UnfoldAdminSelectWidget as Select
    from unfold.widgets import UnfoldAdminTextInputWidget as TextInput

    AgentModelForm = forms.ModelForm

MAX_TURNS = 1_000
THINKING_LEVEL_LABELS = {
    "": gettext_lazy("Model default"),
    "off": gettext_lazy("Off"),
    "minimal": gettext_lazy("Minimal"),
    "low": gettext_lazy("Low"),
    "medium": gettext_lazy("Medium"),
    "high": gettext_lazy("High"),
    "xhigh": gettext_lazy("Highest"),
}


class ModelInput(TextInput):
    """A text field that suggests known models and accepts any."""

    def render(self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None) -> Any:
        listed = f"{(attrs or {}).get('id', name)}_models"
        field = super().render(name, value, {**(attrs or {}), "list": listed, "autocomplete": "off"}, renderer)
        rows = ((row["id"], "" if row["available"] else _("no credentials")) for row in list_available_models())
        options = format_html_join("", '<option value="{}" label="{}"></option>', rows)
        return format_html('{}<datalist id="{}">{}</datalist>', field, listed, options)


class AgentForm(AgentModelForm):
    thinking_level = forms.ChoiceField(
        label=gettext_lazy("Thinking"),
        required=False,
        choices=[(level, THINKING_LEVEL_LABELS.get(level, level)) for level in THINKING_LEVELS],
        widget=Select,
        help_text=gettext_lazy(
            "How long the model can think before answering, if it supports thinking. More thinking costs time and tokens."
        ),
    )

    class Meta:
        model = Agent
        exclude = ()
        widgets = {"model": ModelInput}

    def clean_model(self) -> str:
        name = str(self.cleaned_data["model"]).strip()
        if name and name != self.initial.get(
            "model"
        ):  # an unchanged model is not checked: a missing key must not block saving other fields
            validate_model(name)
        return name

    def clean_workspace(self) -> str:
        given = str(self.cleaned_data["workspace"]).strip()
        return str(validate_workspace(given)) if given else ""

    def clean_max_turns(self) -> int:
        turns = int(self.cleaned_data["max_turns"])
        if not 1 <= turns <= MAX_TURNS:
            raise ValidationError(_("Must be between 1 and %d.") % MAX_TURNS)
        return turns


class AgentToolsForm(AgentForm):
    """Adds the agent's tool policy rule, for users who can change policies."""

    profile = forms.ChoiceField(
        label=gettext_lazy("Tool profile"),
        required=False,
        choices=[("", gettext_lazy("Server default (global policy)")), *((name, name) for name in PROFILES)],
        widget=Select,
        help_text=gettext_lazy("minimal: status only · coding: files, commands, sessions, memory · messaging · full: everything"),
    )
    also_allow = EntriesField(
        label=gettext_lazy("Also allow"),
        required=False,
        help_text=gettext_lazy("One per line. Added to the tools the profile allows."),
    )
    allow = EntriesField(
        label=gettext_lazy("Allow only"),
        required=False,
        help_text=gettext_lazy(
            "One per line: a tool, `group:fs`, `sessions_*`. Limits the profile to these tools; leave blank for all."
        ),
    )
    deny = EntriesField(
        label=gettext_lazy("Never allow"),
        required=False,
        help_text=gettext_lazy("One per line. Overrides anything that is allowed."),
    )
    seen_version = make_seen_version_field()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rules = policies.current_rules()
        row = rules.row("agent", self.instance.slug)
        self.initial.update(
            profile=row.profile, seen_version=rules.version, **{name: list(getattr(row, name)) for name in LIST_FIELDS}
        )
        check_while_typing(self, scope="agent", subject=self.instance.slug)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        slug = cleaned.get("slug") or self.instance.slug
        if slug and "profile" in cleaned and not set(LIST_FIELDS) & set(self.errors):
            rule = normalize_row(
                scope="agent", subject=slug, profile=cleaned["profile"], **{name: cleaned[name] for name in LIST_FIELDS}
            )
            for fault in find_errors(rule):
                self.add_error(fault.field if fault.field in self.fields else None, fault.message)
            if rule != policies.current_rules().row("agent", slug):
                cleaned["rule"] = rule
                check_version(self, cleaned.get(SEEN_VERSION_FIELD))
                if not self.errors:
                    check_tests(self, rule)
        return cleaned

    def changed_policy_row(self) -> RuleRow | None:
        """Return the agent's policy rule if it was changed."""
        rule: RuleRow | None = self.cleaned_data.get("rule")
        return rule


def validate_model(name: str) -> None:
    """Raise ValidationError for a model no run could use: unknown provider or missing API key."""
    provider, slash, _model = name.removeprefix(LITELLM_PREFIX).partition("/")
    if not slash and prices.find_model_info(name) is None:
        raise ValidationError(_("Use the form provider/model, for example openai/gpt-5 or %(demo)s.") % {"demo": DEMO_MODEL})
    known = provider == "demo" or provider in ENDPOINTS or provider in LITELLM_KEYS or bool(prices.list_provider_models(provider))
    if slash and not known and not name.startswith(LITELLM_PREFIX):
        raise ValidationError(
            _("Unknown provider “%(provider)s”. Known: %(known)s. For other LiteLLM providers, use litellm:provider/model.")
            % {"provider": provider, "known": ", ".join(sorted({"demo", *ENDPOINTS, *LITELLM_KEYS}))}
        )
    try:
        resolve_model(name, os.environ)
    except ProviderError:
        variables = ENDPOINTS[provider].keys if provider in ENDPOINTS else LITELLM_KEYS.get(provider, ("?",))
        raise ValidationError(
            _("No credentials for this model. Set %(variable)s for the web and worker processes and restart, or choose %(demo)s.")
            % {"variable": variables[0], "demo": DEMO_MODEL}
        ) from None


def validate_workspace(given: str) -> Path:
    """Check that this is an absolute, writable directory without server files. It need not exist yet."""
    path = Path(given).expanduser()
    if not path.is_absolute():
        raise ValidationError(_("Enter an absolute path, or a path that starts with ~."))
    real, home = path.resolve(), Path(settings.HOME).resolve()
    if real == Path(real.anchor) or real in (home, *home.parents):
        raise ValidationError(_("This directory contains the state directory, with its secrets and database. Choose another one."))
    if home in real.parents:
        raise ValidationError(_("This directory is inside the state directory. Choose one outside it."))
    if held := [protected for protected in (*secret_paths(), *code_paths()) if protected.is_relative_to(real)]:
        raise ValidationError(
            _("This directory contains %(path)s, which belongs to this server. Choose another one.") % {"path": held[0]}
        )
    if any(real.is_relative_to(code) for code in code_paths()):
        raise ValidationError(_("This directory is part of the server’s code. Choose one outside it."))
    if real.exists() and not real.is_dir():
        raise ValidationError(_("This is a file, not a directory."))
    nearest = next(each for each in (real, *real.parents) if each.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ValidationError(_("The server can’t write to %(path)s.") % {"path": nearest})
    return path
