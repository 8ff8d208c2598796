"""Messages for the gateway instead of the agent: commands such as `/model`, and options for a single message.

This module only parses; the corresponding gateway method executes a command. A message that starts with a space is never a
command, so any text can be sent.
"""

import difflib
import re
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from clawsite.infra.errors import InvalidRequest
from sessions_app.sessions.service import THINKING_LEVELS

COMMAND_PATTERN = re.compile(r"/([A-Za-z][\w-]{0,31})(?::|(?=\s)|$)\s*(.*)", re.DOTALL)
MODEL_PATTERN = re.compile(r"@([A-Za-z0-9][\w.:/+-]{0,199})(?:\s+(.*))?", re.DOTALL)
SIMILARITY_THRESHOLD = 0.75  # for typos: "/news" matches /new, "/helpful" doesn't match /help
DEFAULT = "default"
THINKING_LEVEL_CHOICES = tuple(level for level in THINKING_LEVELS if level)
LEVEL_ALIASES = {"on": "low", "none": "off", "min": "minimal", "mid": "medium", "max": "high", "highest": "xhigh"}


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A command as shown in lists and menus. `args` shows its arguments."""

    name: str
    help: "str | Promise"
    args: str = ""
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


COMMANDS = (
    SlashCommand("stop", _("Stop the current run and clear the queue"), aliases=("abort",)),
    SlashCommand("new", _("Start a new chat"), "[title]"),
    SlashCommand("reset", _("Reset this chat"), aliases=("clear",)),
    SlashCommand("model", _("Set the model for this chat, or for one message if text follows"), "<model|default>"),
    SlashCommand(
        "think",
        _("Set the thinking level for this chat, or for one message if text follows"),
        "<level>",
        ("thinking", "t"),
        (*THINKING_LEVEL_CHOICES, DEFAULT),
    ),
    SlashCommand("name", _("Rename this chat"), "<title>", ("title", "rename")),
    SlashCommand("compact", _("Summarize earlier messages to free up context; optionally say what to focus on"), "[words]"),
    SlashCommand("status", _("Show the model, tokens, cost and runs of this chat")),
    SlashCommand("help", _("Show these commands"), aliases=("commands",)),
)
_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}


@dataclass(frozen=True, slots=True)
class CommandInvocation:
    """A command with its arguments."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class MessageOverrides:
    """A message for the agent with options for this message only. `model` is as typed."""

    text: str
    model: str = ""
    thinking: str = ""


def parse_directive(text: str) -> CommandInvocation | MessageOverrides | None:
    """Parse a message; return None if it is for the agent. Raise InvalidRequest for a likely mistyped command."""
    if text.strip().lower() == "/stop":
        return CommandInvocation("stop", "")
    if text.startswith("@") and (match := MODEL_PATTERN.fullmatch(text)):
        return MessageOverrides((match[2] or "").strip(), model=match[1])
    match = COMMAND_PATTERN.match(text)
    if match is None:
        return None
    name, words = match[1].lower(), match[2].strip()
    command = _BY_NAME.get(name)
    if command is None:
        if near := difflib.get_close_matches(name, _BY_NAME, 1, cutoff=SIMILARITY_THRESHOLD):
            raise InvalidRequest(
                f"unknown command /{name}; did you mean /{near[0]}? To send it as text, start with a space",
                details={"code": "UNKNOWN_COMMAND", "command": f"/{name}", "meant": f"/{near[0]}"},
            )
        return None
    first, *behind = words.split(None, 1) or [""]
    if behind and command.name == "model":
        return MessageOverrides(behind[0], model=first)
    if behind and command.name == "think":
        return MessageOverrides(behind[0], thinking=parse_thinking_level(first))
    return CommandInvocation(command.name, words)


def parse_thinking_level(word: str) -> str:
    level = LEVEL_ALIASES.get(word.lower(), word.lower())
    if level not in THINKING_LEVEL_CHOICES:
        raise InvalidRequest(
            f"unknown thinking level {word!r}; use one of {', '.join(THINKING_LEVEL_CHOICES)}",
            details={"code": "UNKNOWN_LEVEL", "level": word, "levels": list(THINKING_LEVEL_CHOICES)},
        )
    return level
