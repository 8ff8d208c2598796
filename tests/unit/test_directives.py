"""What is a command, what is a wish for one message, and what is just a message."""

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
def test_a_directive_is_read(text: str, asked: CommandInvocation | MessageOverrides) -> None:
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
def test_everything_else_is_a_message(text: str) -> None:
    assert parse_directive(text) is None


@pytest.mark.parametrize(("text", "meant"), [("/modle x", "/model"), ("/rest", "/reset"), ("/stpo", "/stop"), ("/thnik", "/think")])
def test_a_typing_error_is_told_with_what_was_meant(text: str, meant: str) -> None:
    with pytest.raises(InvalidRequest, match=f"Did you mean {meant}\\?"):
        parse_directive(text)


def test_levels_have_other_names_and_wrong_ones_are_told() -> None:
    assert [parse_thinking_level(word) for word in ("HIGH", "on", "max")] == ["high", "low", "high"]
    with pytest.raises(InvalidRequest, match="Use one of: off, minimal"):
        parse_thinking_level("hard")
    with pytest.raises(InvalidRequest):
        parse_directive("/think hard about it")


def test_no_name_is_used_twice() -> None:
    names = [name for command in COMMANDS for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))
