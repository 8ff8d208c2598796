"""Templates of webhooks: text with places for values of the delivery. Data in, text out; nothing in a template is ever run.

{{payload.issue.labels[0].name}}   a value of the JSON body; `payload.` may be left out; {{payload}} is all of it
{{headers.x-github-event}}         a header, by its name in small letters
{{query.q}}                        a parameter of the address
{{path}}  {{now}}                  the webhook's own path; the time of the delivery

What is not there gives nothing. Values are put in once: a value that looks like a place stays as it is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

PLACE = re.compile(r"\{\{([^{}]{0,300})\}\}")
STEP = re.compile(r"(?:^|\.)([^.\[\]\s{}\"']+)|\[(\d{1,6})\]")
LONGEST_TEMPLATE = 20_000
MOST_PLACES = 100
LONGEST_VALUE = 20_000  # characters of one value
LONGEST_RESULT = 60_000
DEEPEST = 20  # steps of one path
WHOLE = "{{payload}}"


class TemplateError(ValueError):
    """A template that cannot be meant so; the words say what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a delivery brought. Header names are in small letters; those that carry secrets are not among them."""

    payload: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    now: str = ""


def check(template: str) -> None:
    """TemplateError for what would never give anything."""
    if len(template) > LONGEST_TEMPLATE:
        raise TemplateError(f"a template has at most {LONGEST_TEMPLATE} characters")
    places = PLACE.findall(template)
    if len(places) > MOST_PLACES:
        raise TemplateError(f"a template has at most {MOST_PLACES} places for values")
    for place in places:
        steps = steps_of(place)
        if steps[0] in ("path", "now") and len(steps) > 1:
            raise TemplateError(f"{{{{{place.strip()}}}}}: {steps[0]} has nothing inside it")
        if steps[0] in ("headers", "query") and (len(steps) != 2 or isinstance(steps[1], int)):
            raise TemplateError(f"{{{{{place.strip()}}}}}: name one of the {steps[0]}, such as {{{{{steps[0]}.name}}}}")
    rest = PLACE.sub("", template)
    if "{{" in rest or "}}" in rest:
        raise TemplateError("there is a {{ or }} without its other half")


def steps_of(place: str) -> list[str | int]:
    """The path in a place: names and numbers."""
    text, steps, at = place.strip(), list[str | int](), 0
    while at < len(text):
        found = STEP.match(text, at)
        if found is None:
            raise TemplateError(f"{{{{{text[:60]}}}}} is not a path such as payload.items[0].name")
        steps.append(found[1] if found[1] is not None else int(found[2]))
        at = found.end()
    if not steps or len(steps) > DEEPEST or isinstance(steps[0], int):
        raise TemplateError(f"{{{{{text[:60]}}}}} is not a path such as payload.items[0].name")
    return steps


def render(template: str, facts: Facts) -> str:
    """The template with its values. It never fails: what cannot be read gives nothing."""
    text = PLACE.sub(lambda place: _value(place[1], facts), template[:LONGEST_TEMPLATE])
    return cut(text, LONGEST_RESULT)


def _value(place: str, facts: Facts) -> str:
    try:
        root, *steps = steps_of(place)
    except TemplateError:
        return ""
    match root:
        case "path":
            return facts.path
        case "now":
            return facts.now
        case "headers":
            return cut(facts.headers.get(str(steps[0]).lower(), "") if steps else "", LONGEST_VALUE)
        case "query":
            return cut(facts.query.get(str(steps[0]), "") if steps else "", LONGEST_VALUE)
        case "payload":
            return cut(_as_text(_follow(facts.payload, steps)), LONGEST_VALUE)
    return cut(_as_text(_follow(facts.payload, [root, *steps])), LONGEST_VALUE)


def _follow(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        if isinstance(value, dict) and str(step) in value:
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _as_text(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case dict() | list():
            return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    return orjson.dumps(value).decode()


def cut(text: str, longest: int) -> str:
    """The beginning of what is too long, which says so."""
    return text if len(text) <= longest else f"{text[:longest]}… (cut: {len(text) - longest} more characters)"
