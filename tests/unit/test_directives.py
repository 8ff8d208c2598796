"""Commands, options for one message, and ordinary messages."""

import pytest

from clawsite.infra.errors import InvalidRequest
from clawsite.routing.directives import COMMANDS, CommandInvocation, MessageOverrides, parse_directive, parse_thinking_level


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("/stop", CommandInvocation("stop", "")),
        (" /STOP \n", CommandInvocation("stop", "")),
        ("/new", CommandInvocation("new", "")),
        ("/new A plan", CommandInvocation("new", "A plan")),
        ("/clear", CommandInvocation("reset", "")),
        ("/model", CommandInvocation("model", "")),
        ("/model openai/gpt-5", CommandInvocation("model", "openai/gpt-5")),
        ("/model: openai/gpt-5", CommandInvocation("model", "openai/gpt-5")),
        ("/THINK high", CommandInvocation("think", "high")),
        ("/t low", CommandInvocation("think", "low")),
        ("/name My trip\nto Rome", CommandInvocation("name", "My trip\nto Rome")),
        ("/status", CommandInvocation("status", "")),
        ("/help me", CommandInvocation("help", "me")),
        ("/model demo/clawsite write a poem", MessageOverrides("write a poem", model="demo/clawsite")),
        ("/think high\nwrite a poem", MessageOverrides("write a poem", thinking="high")),
        ("@demo/clawsite hello\nyou", MessageOverrides("hello\nyou", model="demo/clawsite")),
        ("@bob", MessageOverrides("", model="bob")),
    ],
)
def test_directive_is_parsed(text: str, asked: CommandInvocation | MessageOverrides) -> None:
    assert parse_directive(text) == asked


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "",
        " /model x",
        "a /model x",
        "/usr/bin is full",
        "/etc",
        "/",
        "//",
        "/ model",
        "/1",
        "/helpful advice",
        "@",
        "@ bob",
        "/模型 x",
    ],
)
def test_other_text_is_not_a_directive(text: str) -> None:
    assert parse_directive(text) is None


@pytest.mark.parametrize(("text", "meant"), [("/modle x", "/model"), ("/rest", "/reset"), ("/stpo", "/stop"), ("/thnik", "/think")])
def test_misspelled_directive_gets_a_suggestion(text: str, meant: str) -> None:
    with pytest.raises(InvalidRequest, match=f"Did you mean {meant}\\?"):
        parse_directive(text)


def test_thinking_level_aliases_parse_and_unknown_levels_fail() -> None:
    assert [parse_thinking_level(word) for word in ("HIGH", "on", "max")] == ["high", "low", "high"]
    with pytest.raises(InvalidRequest, match="Use one of: off, minimal"):
        parse_thinking_level("hard")
    with pytest.raises(InvalidRequest):
        parse_directive("/think hard about it")


def test_command_names_and_aliases_are_unique() -> None:
    names = [name for command in COMMANDS for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))
