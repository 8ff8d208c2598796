"""What a delivery asks for, in the webhook's own terms: a run with this prompt, or words for the main session. No writing here.

All that came from outside reaches a model inside the envelope of tools_app.core.untrusted_text, whose marks no sender can write, unless
an operator has said that this webhook's senders are to be believed. The operator's own instructions stand outside of it.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from agents.prepare.model_choice import choose_model
from clawsite.gateway.hooks.templates import WHOLE, Facts, cut, render
from clawsite.gateway.models import Hook
from clawsite.gateway.models.hook import AGENT, WAKE
from clawsite.gateway.protocol.frames import complaint
from clawsite.infra.errors import InvalidRequest
from clawsite.routing.directives import thinking_level
from clawsite.routing.wake import NOW, Mode
from sessions_app.keys import parse_key
from sessions_app.origin import HOOK
from tools_app.core.hidden_characters import visible
from tools_app.core.untrusted_text import enveloped
from tools_app.policy.catalog import WEBHOOK

MOST_WAIT_SECONDS = 120.0  # for the end of a run, while the sender's connection is open
LONGEST_NAME = 80
LONGEST_EVENT = 10_000  # characters of what a main session is told: twenty of them may wait
PLAIN_PART = re.compile(r"[^A-Za-z0-9._@#-]+")
LONGEST_PART = 100
DEFAULT_INSTRUCTIONS = "Something has been delivered to a webhook. Say briefly what it is about."


@dataclass(frozen=True, slots=True)
class RunWish:
    """A run of its own. `name` is what its result is called; None as `tells`: it is not told."""

    prompt: str
    name: str
    session_key: str
    options: dict[str, Any]
    timeout_seconds: float | None
    tells: Mode | None
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class WakeWish:
    """Words for the main session."""

    text: str
    mode: Mode


class _Body(BaseModel):
    """Open: senders of OpenClaw's form may add what we do not know."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)


class WakeBody(_Body):
    text: str = Field(min_length=1)
    mode: Mode | None = None


class AgentBody(_Body):
    message: str = Field(min_length=1, max_length=60_000)
    name: str = Field("Hook", max_length=200)
    wake_mode: Mode | None = None
    session_key: str | None = Field(None, max_length=200)
    deliver: bool | None = None
    channel: Literal["last"] | None = None  # results go to the main session; there is no other place yet
    model: str | None = Field(None, max_length=200)
    thinking: str | None = Field(None, max_length=16)
    timeout_seconds: float | None = Field(None, gt=0, le=86_400)
    agent_id: str | None = Field(None, max_length=64)
    wait_for_completion: bool = False
    to: str | None = None

    @field_validator("to")
    @classmethod
    def _to_nobody(cls, value: str | None) -> str | None:
        if value:
            raise PydanticCustomError("not_here", "Cannot be used: results go to the main session and to nobody else")
        return value


def wish_of(hook: Hook, facts: Facts) -> RunWish | WakeWish:
    """InvalidRequest for a body that says nothing, or asks for what this webhook does not give."""
    try:
        match hook.slug:
            case "wake":
                body = WakeBody.model_validate(facts.payload)
                return WakeWish(from_outside(hook, cut(body.text, LONGEST_EVENT)), _mode(hook, body.mode))
            case "agent":
                return _asked_run(hook, AgentBody.model_validate(facts.payload))
    except ValidationError as error:
        raise InvalidRequest(complaint(error)) from None
    return mapped(hook, facts)


def mapped(hook: Hook, facts: Facts) -> RunWish | WakeWish:
    """What the webhook's templates make of a delivery."""
    words = render(hook.message_template or WHOLE, facts).strip()
    if not words:
        raise InvalidRequest("the template of this webhook makes nothing of the body: none of its values is there")
    mode = _mode(hook)
    if hook.action == WAKE:
        head = f"{hook.instructions.strip()}\n" if hook.instructions.strip() else ""
        return WakeWish(f"{head}{from_outside(hook, cut(words, LONGEST_EVENT))}", mode)
    return RunWish(
        prompt=prompt_of(hook, words),
        name=hook.name,
        session_key=_session_key(hook, render(hook.session_key_template, facts)),
        options=_options(hook, hook.model, hook.thinking),
        timeout_seconds=hook.timeout_seconds,
        tells=mode if hook.deliver else None,
    )


def _asked_run(hook: Hook, body: AgentBody) -> RunWish:
    if body.agent_id is not None and body.agent_id != hook.agent:
        raise InvalidRequest(f"this webhook speaks to the agent {hook.agent!r} only; leave agentId out")
    if body.session_key is not None and not hook.allow_request_session_key:
        raise InvalidRequest("this webhook does not let its callers choose the session; leave sessionKey out")
    return RunWish(
        prompt=prompt_of(hook, body.message),
        name=" ".join(visible(body.name)[0].split())[:LONGEST_NAME] or "Hook",
        session_key=_wished_key(hook, body.session_key) if body.session_key else _session_key(hook, ""),
        options=_options(hook, body.model or hook.model, body.thinking or hook.thinking),
        timeout_seconds=body.timeout_seconds or hook.timeout_seconds,
        tells=_mode(hook, body.wake_mode) if hook.deliver and body.deliver is not False else None,
        wait_seconds=MOST_WAIT_SECONDS if body.wait_for_completion else 0.0,
    )


def _mode(hook: Hook, wished: Mode | None = None) -> Mode:
    """When the main session is told: as the webhook says. Its callers may put it off, and never bring it about sooner."""
    return NOW if hook.wake_mode == NOW and wished in (None, NOW) else "next-heartbeat"


def prompt_of(hook: Hook, words: str) -> str:
    """The operator's instructions, then what came."""
    instructions = hook.instructions.strip() or ("" if hook.allow_unsafe else DEFAULT_INSTRUCTIONS)
    return "\n\n".join(part for part in (instructions, from_outside(hook, words)) if part)


def from_outside(hook: Hook, words: str) -> str:
    """The words in their envelope; as they are where an operator has said that these senders are to be believed."""
    return words if hook.allow_unsafe else enveloped(visible(words)[0], f"the webhook {hook.slug!r}")


def _options(hook: Hook, model: str, thinking: str) -> dict[str, Any]:
    """Of the run. By the first the tool policy and the sandbox know whose words it is about."""
    wishes = {
        HOOK: hook.slug,
        "model": choose_model(model) if model else "",
        "thinking": thinking_level(thinking) if thinking else "",
    }
    return {name: value for name, value in wishes.items() if value}


def _session_key(hook: Hook, rendered: str) -> str:
    """`agent:<agent>:hook:<path>:<rendered>`, or a new one each time."""
    own = f"agent:{hook.agent}:{WEBHOOK}"
    return f"{own}:{hook.slug}:{_part(rendered)}" if rendered.strip() else f"{own}:{uuid4().hex}"


def _wished_key(hook: Hook, wished: str) -> str:
    """`hook:<name>`, kept apart from the conversations of all other webhooks."""
    parsed = parse_key(wished, default_agent=hook.agent)
    if parsed.kind != WEBHOOK or parsed.agent != hook.agent:
        raise InvalidRequest(f"sessionKey is `hook:<name>` here; {wished!r} is another session")
    return f"agent:{hook.agent}:{WEBHOOK}:{AGENT}:{_part(':'.join(parsed.rest[1:]))}"


def _part(text: str) -> str:
    """One part of a key. What had to be changed is told apart by its digest, so that two senders' values never meet."""
    text = text.strip()
    plain = PLAIN_PART.sub("-", text)[:LONGEST_PART]
    return plain if plain == text else f"{plain}-{sha256(text.encode(errors='replace')).hexdigest()[:12]}"
