"""Webhook templates: text with placeholders for values of the delivery. Templates are never executed.

{{payload.issue.labels[0].name}}   a value of the JSON body; `payload.` is optional; {{payload}} is the whole body
{{headers.x-github-event}}         a header, by its lowercase name
{{query.q}}                        a query parameter
{{path}}  {{now}}                  the webhook's path; the time of the delivery

Missing values are left empty. Values are inserted once: a placeholder inside a value is not replaced.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from django.utils.translation import gettext as _

PLACEHOLDER = re.compile(r"\{\{([^{}]{0,300})\}\}")
PATH_STEP = re.compile(r"(?:^|\.)([^.\[\]\s{}\"']+)|\[(\d{1,6})\]")
MAX_TEMPLATE_LENGTH = 20_000
MAX_PLACEHOLDERS = 100
MAX_VALUE_LENGTH = 20_000  # characters per value
MAX_RESULT_LENGTH = 60_000
MAX_DEPTH = 20  # steps per path
WHOLE_PAYLOAD = "{{payload}}"


class TemplateError(ValueError):
    """The template is invalid; the message says why."""


@dataclass(frozen=True, slots=True)
class TemplateValues:
    """Values of a delivery. Header names are lowercase; headers with secrets are left out."""

    payload: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    now: str = ""


def check_template(template: str) -> None:
    """Raise TemplateError for placeholders that can never have a value."""
    if len(template) > MAX_TEMPLATE_LENGTH:
        raise TemplateError(_("A template can have at most %(most)d characters.") % {"most": MAX_TEMPLATE_LENGTH})
    places = PLACEHOLDER.findall(template)
    if len(places) > MAX_PLACEHOLDERS:
        raise TemplateError(_("A template can have at most %(most)d placeholders.") % {"most": MAX_PLACEHOLDERS})
    for place in places:
        steps = parse_path(place)
        if steps[0] in ("path", "now") and len(steps) > 1:
            raise TemplateError(
                _("%(placeholder)s: “%(name)s” has no fields.") % {"placeholder": _braced(place.strip()), "name": steps[0]}
            )
        if steps[0] in ("headers", "query") and (len(steps) != 2 or isinstance(steps[1], int)):
            raise TemplateError(
                _("%(placeholder)s: name one of the %(list)s, such as %(example)s.")
                % {"placeholder": _braced(place.strip()), "list": steps[0], "example": _braced(f"{steps[0]}.name")}
            )
    rest = PLACEHOLDER.sub("", template)
    if "{{" in rest or "}}" in rest:
        raise TemplateError(_("Unmatched {{ or }}."))


def parse_path(place: str) -> list[str | int]:
    """Split the path of a placeholder into names and indexes."""
    text, steps, at = place.strip(), list[str | int](), 0
    while at < len(text):
        found = PATH_STEP.match(text, at)
        if found is None:
            raise _invalid_path(text)
        steps.append(found[1] if found[1] is not None else int(found[2]))
        at = found.end()
    if not steps or len(steps) > MAX_DEPTH or isinstance(steps[0], int):
        raise _invalid_path(text)
    return steps


def _invalid_path(text: str) -> TemplateError:
    message = _("%(placeholder)s is not a path such as payload.items[0].name.")
    return TemplateError(message % {"placeholder": _braced(text[:60])})


def _braced(text: str) -> str:
    return f"{{{{{text}}}}}"


def render_template(template: str, facts: TemplateValues) -> str:
    """Insert the values into the template. Never fails: invalid placeholders are left empty."""
    text = PLACEHOLDER.sub(lambda place: _render_value(place[1], facts), template[:MAX_TEMPLATE_LENGTH])
    return truncate(text, MAX_RESULT_LENGTH)


def _render_value(place: str, facts: TemplateValues) -> str:
    try:
        root, *steps = parse_path(place)
    except TemplateError:
        return ""
    match root:
        case "path":
            return facts.path
        case "now":
            return facts.now
        case "headers":
            return truncate(facts.headers.get(str(steps[0]).lower(), "") if steps else "", MAX_VALUE_LENGTH)
        case "query":
            return truncate(facts.query.get(str(steps[0]), "") if steps else "", MAX_VALUE_LENGTH)
        case "payload":
            return truncate(_to_text(_follow_path(facts.payload, steps)), MAX_VALUE_LENGTH)
    return truncate(_to_text(_follow_path(facts.payload, [root, *steps])), MAX_VALUE_LENGTH)


def _follow_path(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        if isinstance(value, dict) and str(step) in value:
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _to_text(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case dict() | list():
            return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    return orjson.dumps(value).decode()


def truncate(text: str, longest: int) -> str:
    """Cut the text to `longest` characters and append a note if it was cut."""
    return text if len(text) <= longest else f"{text[:longest]}… (cut: {len(text) - longest} more characters)"
