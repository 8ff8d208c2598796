"""Templates of webhooks: what they give, what they never do, and what is refused when one is saved."""

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
def test_a_template_gives_values_and_nothing_else(template, text):
    assert render_template(template, FACTS) == text


def test_a_value_that_looks_like_a_place_stays_as_it_is():
    assert render_template("{{payload.a}}", TemplateValues(payload={"a": "{{payload.b}}", "b": "secret"})) == "{{payload.b}}"


def test_the_whole_body_of_any_kind_can_be_told():
    assert render_template("{{payload}}", TemplateValues(payload=[1, "two"])) == '[\n  1,\n  "two"\n]'
    assert render_template("{{payload}}", TemplateValues(payload="words")) == "words"


def test_long_values_and_long_results_are_cut_and_say_so():
    one = render_template("{{payload.a}}", TemplateValues(payload={"a": "x" * (MAX_VALUE_LENGTH + 5)}))
    assert one.endswith("x… (cut: 5 more characters)")
    assert len(one) < MAX_VALUE_LENGTH + 100
    many = render_template("{{payload.a}}" * 50, TemplateValues(payload={"a": "x" * MAX_VALUE_LENGTH}))
    assert len(many) < MAX_RESULT_LENGTH + 100


@pytest.mark.parametrize("template", ["{{payload.a}", "a }} b", "{{a b}}", "{{}}", "{{headers}}", "{{query[0]}}", "{{now.year}}"])
def test_what_can_never_give_anything_is_refused(template):
    with pytest.raises(TemplateError):
        check_template(template)


@pytest.mark.parametrize("template", ["", "words", "{{payload}}", "{{a-b.c_d[3].$e}}", "{{headers.x-github-event}} {{now}}"])
def test_what_can_is_taken(template):
    check_template(template)


def test_too_much_is_refused():
    with pytest.raises(TemplateError):
        check_template("{{a}}" * 101)
    with pytest.raises(TemplateError):
        check_template("x" * 20_001)
    with pytest.raises(TemplateError):
        check_template("{{" + ".".join("a" * 21) + "}}")
