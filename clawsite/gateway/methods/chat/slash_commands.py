"""Slash commands in messages. Each calls the method that a program would call, and describes the result."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NotRequired

from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from typing_extensions import TypedDict

from agents.prepare.model_choice import choose_model
from agents.selectors import choose_model_name, find_agent
from clawsite.gateway.auth import limited_tokens
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.methods.sessions import create as session_making
from clawsite.gateway.methods.sessions import lifecycle as session_methods
from clawsite.gateway.protocol.events.frames import SessionName, to_chat_outgoing
from clawsite.gateway.protocol.params import Id, Key, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.languages import find_language
from clawsite.gateway.server.registry import Call, method
from clawsite.infra import clock, db
from clawsite.infra.errors import InvalidRequest, NotFound
from clawsite.routing.directives import (
    COMMANDS,
    DEFAULT,
    THINKING_LEVEL_CHOICES,
    CommandInvocation,
    SlashCommand,
    parse_thinking_level,
)
from clawsite.routing.inbound import SessionAddress, find_session_or_none
from sessions_app.keys import parse_key
from sessions_app.models import Run, Session
from sessions_app.runs.compaction_requests import request_compaction


class Choice(TypedDict):
    value: str
    label: str


class Argument(TypedDict):
    name: str
    description: str
    type: Literal["string"]
    required: bool
    choices: NotRequired[list[Choice]]


class CommandRow(TypedDict):
    """A command. `args` describes its argument: `description` is its syntax, `choices` the possible values if there are few."""

    name: str
    textAliases: list[str]
    description: str
    source: Literal["native"]
    scope: Literal["text"]
    acceptsArgs: bool
    args: NotRequired[list[Argument]]


class ListParams(Params):
    """The commands are the same in every session and for every agent."""

    refused: ClassVar[Mapping[str, str]] = {"provider": "commands do not depend on a channel"}

    session_key: Key | None = None
    agent_id: Id | None = None
    scope: Literal["text", "native", "both"] = "both"
    include_args: bool = True


class CommandsAnswer(TypedDict):
    commands: list[CommandRow]


@method("commands.list", scope=Scope.READ)
async def commands_list(call: Call, params: ListParams) -> CommandsAnswer:
    """List the commands that chat.send runs when a message starts with a slash."""
    return list_command_rows(call) if params.scope != "native" else CommandsAnswer(commands=[])


def list_command_rows(call: Call) -> CommandsAnswer:
    """Return the commands in the caller's language."""
    with translation.override(_language(call)):
        return CommandsAnswer(commands=[_row(command) for command in COMMANDS])


def _language(call: Call) -> str | None:
    """Return the user's chosen language, or else the client's; None for English."""
    return find_language(call.user.language or call.connection.locale) or None


def _row(command: SlashCommand) -> CommandRow:
    row = CommandRow(
        name=command.name,
        textAliases=[f"/{name}" for name in (command.name, *command.aliases)],
        description=str(command.help),
        source="native",
        scope="text",
        acceptsArgs=bool(command.args),
    )
    if command.args:
        name, required = command.args.strip("[]<>"), command.args.startswith("<")
        argument = Argument(name=name, description=command.args, type="string", required=required)
        if command.choices:
            argument["choices"] = [Choice(value=choice, label=choice) for choice in command.choices]
        row["args"] = [argument]
    return row


@dataclass(frozen=True, slots=True)
class SlashCommandResult:
    notice: str
    session_key: str  # the session to show now


async def run_slash_command(
    call: Call, invocation: CommandInvocation, address: SessionAddress, idempotency_key: str
) -> SlashCommandResult:
    """Run a command in its session and respond in the user's language."""
    with translation.override(_language(call)):
        return await _run_slash_command(call, invocation, address, idempotency_key)


async def show_notice(call: Call, address: SessionAddress, run_id: str, notice: str) -> None:
    """Send a command's output as an answer, which OpenClaw's clients wait for. Only this connection gets it; it is not stored."""
    message = {"role": "assistant", "content": [{"type": "text", "text": notice}], "timestamp": clock.now_ms()}
    payload = {"runId": run_id, "seq": 0, "state": "final", "stopReason": "command", "message": message}
    session = await db.read(find_session_or_none, call.user, address)
    key, id = (session.key_for(call.user.pk), str(session.generation_id)) if session else (address.own_key(), "")
    call.connection.deliver(replace(to_chat_outgoing(payload, SessionName(id, key)), classic=None))


async def _run_slash_command(
    call: Call, invocation: CommandInvocation, address: SessionAddress, idempotency_key: str
) -> SlashCommandResult:
    session = await db.read(find_session_or_none, call.user, address)
    key = session.key_for(call.user.pk) if session else address.own_key()
    match invocation.name:
        case "help":
            return SlashCommandResult(_render_help(), key)
        case "status":
            return SlashCommandResult(await _render_status(session, key), key)
        case "new":
            return await _create_session(call, invocation.args, session.agent if session else parse_key(key).agent, idempotency_key)
        case "reset":
            return await _reset_session(call, invocation.args, session, key)
        case "name":
            if not invocation.args:
                raise InvalidRequest(_("/name must be followed by a title."))
            title = " ".join(invocation.args.split())[:200]
            await _patch_session(call, session, address, title=title)
            return SlashCommandResult(_("This chat is now named “%(title)s”.") % {"title": title}, key)
        case "model":
            return SlashCommandResult(await _change_model(call, invocation.args, session, address, key), key)
        case "compact":
            if session is None:
                return SlashCommandResult(_("There is nothing to summarize yet."), key)
            await db.write(
                request_compaction, call.user, session, run_id=idempotency_key, words=invocation.args, key=str(session.id)
            )
            return SlashCommandResult(_("Summarizing earlier messages. They stay visible here."), key)
        case "think":
            return SlashCommandResult(await _change_thinking(call, invocation.args, session, address), key)
    raise InvalidRequest(_("/%(command)s is not available here.") % {"command": invocation.name})


async def _patch_session(call: Call, session: Session | None, address: SessionAddress, **changes: str | None) -> None:
    limited_tokens.check_limited_token(call.user, LimitedTokenRule.REFUSED, "this command")
    target = {"session_id": str(session.id)} if session else {"key": address.own_key()}
    await session_methods.patch(call, session_methods.PatchParams.model_validate({**target, **changes}))


async def _create_session(call: Call, title: str, agent: str, idempotency_key: str) -> SlashCommandResult:
    # With the message's idempotency key, so that a message sent twice creates one session.
    options = {"agentId": agent, "displayName": " ".join(title.split())[:200], "idempotencyKey": idempotency_key}
    session = await session_making.create(call, session_making.CreateParams.model_validate(options))
    return SlashCommandResult(_("This is a new chat."), session["key"])


async def _reset_session(call: Call, text: str, session: Session | None, key: str) -> SlashCommandResult:
    if text:
        raise InvalidRequest(_("/reset takes no text; to send it as a message, start with a space."))
    if session is None or not session.entry_count:
        return SlashCommandResult(_("This chat is already empty."), key)
    await session_methods.reset(call, session_methods.ResetParams(session_id=str(session.id), reason="reset"))
    return SlashCommandResult(_("This chat was reset; the agent no longer remembers earlier messages."), key)


async def _change_model(call: Call, name: str, session: Session | None, address: SessionAddress, key: str) -> str:
    if not name:
        now = await db.read(_model_in_use, session, key)
        return _("This chat uses %(model)s. To change it, use /model with a model name.") % {"model": now}
    if name.lower() == DEFAULT:
        await _patch_session(call, session, address, model=None)
        now = await db.read(_model_in_use, await db.read(find_session_or_none, call.user, address), key)
        return _("This chat now uses the agent’s default model again: %(model)s.") % {"model": now}
    model = await db.read(choose_model, name)
    await _patch_session(call, session, address, model=model)
    return _("This chat now uses %(model)s.") % {"model": model}


async def _change_thinking(call: Call, value: str, session: Session | None, address: SessionAddress) -> str:
    if not value:
        now = (session.thinking_level if session else "") or DEFAULT
        return _("The thinking level is %(level)s. Choose one of: %(levels)s.") % {
            "level": now,
            "levels": ", ".join((*THINKING_LEVEL_CHOICES, DEFAULT)),
        }
    level = None if value.lower() == DEFAULT else parse_thinking_level(value)
    await _patch_session(call, session, address, thinking_level=level)
    return _("The thinking level is now %(level)s.") % {"level": level or DEFAULT}


def _model_in_use(session: Session | None, key: str) -> str:
    try:
        agent = find_agent(session.agent if session else parse_key(key).agent)
    except NotFound:
        return session.model if session else ""
    return choose_model_name(agent, session.model if session else "")


def _render_help() -> str:
    return "\n".join(f"- `/{' '.join(filter(None, (command.name, command.args)))}` – {command.help}" for command in COMMANDS)


async def _render_status(session: Session | None, key: str) -> str:
    lines = [(_("Session key"), f"`{key}`"), (_("Model"), await db.read(_model_in_use, session, key))]
    if session is not None:
        active, queued = await db.read(_count_unfinished, session)
        queued_text = ngettext("%d message queued", "%d messages queued", queued) % queued
        state = _("busy") if active else _("idle")
        lines += [
            (_("Thinking"), session.thinking_level or DEFAULT),
            (
                _("Tokens"),
                _("%(input)d input, %(output)d output") % {"input": session.input_tokens, "output": session.output_tokens},
            ),
            (_("Cost"), f"${session.cost_microusd / 1e6:.4f}"),
            (_("Status"), f"{state}; {queued_text}"),
        ]
    return "\n".join(f"- **{name}**: {value}" for name, value in lines)


def _count_unfinished(session: Session) -> tuple[int, int]:
    """Return the counts of (running or parked runs, queued runs)."""
    statuses = list(Run.objects.filter(session=session, status__in=Run.UNFINISHED).values_list("status", flat=True))
    queued = statuses.count(Run.Status.ACCEPTED)
    return len(statuses) - queued, queued
