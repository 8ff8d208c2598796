"""Webhook templates: their results, what they never do, and what is rejected when one is saved."""

import pytest

from clawsite.connectors.webhook.prompt_templates import (
    MAX_RESULT_LENGTH,
    MAX_VALUE_LENGTH,
    TemplateError,
    TemplateValues,
    check_template,
    render_template,
)

FACTS = TemplateValues(
    payload={
        "issue": {"title": "It rains", "labels": [{"name": "bug"}, {"name": "urgent"}], "number": 7, "open": True, "by": None}
    },
    headers={"x-github-event": "issues"},
    query={"q": "hello"},
    path="github",
    now="2026-11-17T05:00:00Z",
)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{payload.issue.title}}", "It rains"),
        ("{{ payload.issue.labels[1].name }}!", "urgent!"),
        ("{{issue.number}}/{{issue.open}}", "7/true"),
        ("{{headers.X-GitHub-Event}} {{query.q}} {{path}} {{now}}", "issues hello github 2026-11-17T05:00:00Z"),
        ("[{{payload.nothing.here}}{{issue.by}}{{headers.none}}{{issue.labels[9].name}}{{issue.title[0]}}]", "[]"),
        ("{{payload.issue.labels[0]}}", '{\n  "name": "bug"\n}'),
        ("no places at all", "no places at all"),
        ("{{payload.__class__.__mro__}}{{payload.issue.title.upper}}", ""),
        ("{{ 1 + 1 }}{{payload['x']}}{{}}", ""),
    ],
)
def test_template_renders_values_only(template, text):
    assert render_template(template, FACTS) == text


def test_placeholder_inside_a_value_is_not_rendered():
    assert render_template("{{payload.a}}", TemplateValues(payload={"a": "{{payload.b}}", "b": "secret"})) == "{{payload.b}}"


def test_whole_payload_of_any_type_can_be_rendered():
    assert render_template("{{payload}}", TemplateValues(payload=[1, "two"])) == '[\n  1,\n  "two"\n]'
    assert render_template("{{payload}}", TemplateValues(payload="words")) == "words"


def test_long_values_and_results_are_truncated_with_note():
    one = render_template("{{payload.a}}", TemplateValues(payload={"a": "x" * (MAX_VALUE_LENGTH + 5)}))
    assert one.endswith("x… (cut: 5 more characters)")
    assert len(one) < MAX_VALUE_LENGTH + 100
    many = render_template("{{payload.a}}" * 50, TemplateValues(payload={"a": "x" * MAX_VALUE_LENGTH}))
    assert len(many) < MAX_RESULT_LENGTH + 100


@pytest.mark.parametrize("template", ["{{payload.a}", "a }} b", "{{a b}}", "{{}}", "{{headers}}", "{{query[0]}}", "{{now.year}}"])
def test_invalid_template_is_rejected(template):
    with pytest.raises(TemplateError):
        check_template(template)


@pytest.mark.parametrize("template", ["", "words", "{{payload}}", "{{a-b.c_d[3].$e}}", "{{headers.x-github-event}} {{now}}"])
def test_valid_template_is_accepted(template):
    check_template(template)


def test_oversized_template_is_rejected():
    with pytest.raises(TemplateError):
        check_template("{{a}}" * 101)
    with pytest.raises(TemplateError):
        check_template("x" * 20_001)
    with pytest.raises(TemplateError):
        check_template("{{" + ".".join("a" * 21) + "}}")
