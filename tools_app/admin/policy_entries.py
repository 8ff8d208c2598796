"""Form field for policy entries, one per line. Suggests tools, groups and plugins while the user types."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.html import format_html, format_html_join

from tools_app.policy_store.checks import parse_entries
from tools_app.policy_store.vocabulary import suggest_entries

if TYPE_CHECKING:  # unfold has no types, and Django's classes aren't generic at run time
    from django.forms import Textarea
else:
    from unfold.widgets import UnfoldAdminTextareaWidget as Textarea


class EntriesInput(Textarea):
    """A textarea with suggestions; works as a plain textarea without JavaScript."""

    class Media:
        css = {"all": ["css/policy_form.css"]}
        js = [forms.Script("js/admin/policy_form.js", type="module")]

    def render(self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None) -> Any:
        list_id = f"{(attrs or {}).get('id', name)}_words"
        # The blank placeholder lets the stylesheet detect an empty field.
        extra = {"data-entries": list_id, "spellcheck": "false", "autocomplete": "off", "placeholder": " "}
        field = super().render(name, value, {**(attrs or {}), **extra}, renderer)
        options = format_html_join("", '<option value="{}" label="{}"></option>', suggest_entries())
        return format_html('{}<datalist id="{}">{}</datalist>', field, list_id, options)


class EntriesField(forms.CharField):
    """A list of entries, one per line or separated by spaces or commas."""

    widget = EntriesInput(attrs={"rows": 4})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str]:
        return parse_entries(super().clean(value))
