"""The field with one policy entry a line, as the admin's forms have it: tools, groups and plugins are suggested while one types."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.html import format_html, format_html_join

from tools_app.policy_store.checks import parse_entries
from tools_app.policy_store.vocabulary import suggest_entries

if TYPE_CHECKING:  # unfold brings no types, and Django's classes take no parameters at run time
    from django.forms import Textarea
else:
    from unfold.widgets import UnfoldAdminTextareaWidget as Textarea


class EntriesInput(Textarea):
    """A plain field without the script."""

    class Media:
        css = {"all": ["css/policy_form.css"]}
        js = [forms.Script("js/admin/policy_form.js", type="module")]

    def render(self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None) -> Any:
        listed = f"{(attrs or {}).get('id', name)}_words"
        # The placeholder is blank: by it a stylesheet knows that nothing is written.
        more = {"data-entries": listed, "spellcheck": "false", "autocomplete": "off", "placeholder": " "}
        field = super().render(name, value, {**(attrs or {}), **more}, renderer)
        options = format_html_join("", '<option value="{}" label="{}"></option>', suggest_entries())
        return format_html('{}<datalist id="{}">{}</datalist>', field, listed, options)


class EntriesField(forms.CharField):
    """A list of entries, one a line; blanks and commas between them do as well."""

    widget = EntriesInput(attrs={"rows": 4})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str]:
        return parse_entries(super().clean(value))
