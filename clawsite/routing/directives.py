"""Messages that are meant for us and not for the agent: commands such as `/model`, and wishes for one message.

Only read here; what a command does is done by the gateway's method of the same purpose. A message that begins with a blank is
never a command, so that everything can be said.
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
SIMILARITY_THRESHOLD = 0.75  # of a typing error; "/news" is one for /new, "/helpful" none for /help
DEFAULT = "default"
THINKING_LEVEL_CHOICES = tuple(level for level in THINKING_LEVELS if level)
LEVEL_ALIASES = {"on": "low", "none": "off", "min": "minimal", "mid": "medium", "max": "high", "highest": "xhigh"}


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """What is told of a command in lists and menus. `args` shows what may follow it."""

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
    """A command with the words behind it."""

    name: str
    words: str


@dataclass(frozen=True, slots=True)
class MessageOverrides:
    """A message for the agent with a wish for this message only. `model` is as typed."""

    text: str
    model: str = ""
    thinking: str = ""


def parse_directive(text: str) -> CommandInvocation | MessageOverrides | None:
    """What the message asks of us; None if it is for the agent. InvalidRequest for what looks like a mistyped command."""
    if text.strip().lower() == "/stop":
        return CommandInvocation("stop", "")
    if text.startswith("@") and (found := MODEL_PATTERN.fullmatch(text)):
        return MessageOverrides((found[2] or "").strip(), model=found[1])
    found = COMMAND_PATTERN.match(text)
    if found is None:
        return None
    name, words = found[1].lower(), found[2].strip()
    command = _BY_NAME.get(name)
    if command is None:
        if near := difflib.get_close_matches(name, _BY_NAME, 1, cutoff=SIMILARITY_THRESHOLD):
            raise InvalidRequest(
                f"there is no command /{name}; did you mean /{near[0]}? To send it as words, begin with a blank",
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
            f"there is no thinking level {word!r}; choose one of {', '.join(THINKING_LEVEL_CHOICES)}",
            details={"code": "UNKNOWN_LEVEL", "level": word, "levels": list(THINKING_LEVEL_CHOICES)},
        )
    return level
