"""What a delivery requests: a run with a prompt, or a message to the main session. Writes nothing.

Content from senders reaches a model only inside the markers of tools_app.core.untrusted_text, which senders cannot forge, unless an
operator marked the webhook's senders as trusted. The operator's instructions are outside the markers.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal
from uuid import uuid4

from django.utils.translation import gettext as _
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from agents.prepare.model_choice import choose_model
from clawsite.connectors.webhook.models import AGENT, WAKE, Hook
from clawsite.connectors.webhook.prompt_templates import WHOLE_PAYLOAD, TemplateValues, render_template, truncate
from clawsite.infra.errors import InvalidRequest
from clawsite.infra.validation import describe_first_error
from clawsite.routing.directives import parse_thinking_level
from clawsite.routing.wake import NOW, WakeMode
from sessions_app.keys import parse_key
from sessions_app.origin import Origin
from sessions_app.run_request import RunRequest
from tools_app.core.hidden_characters import remove_hidden
from tools_app.core.untrusted_text import wrap_untrusted_text
from tools_app.policy.catalog import WEBHOOK_CHANNEL

MAX_WAIT_SECONDS = 120.0  # to wait for the end of a run, while the sender's connection stays open
MAX_NAME_LENGTH = 80
MAX_EVENT_LENGTH = 10_000  # characters of a message to the main session, where up to 20 can be queued
UNSAFE_KEY_CHARACTERS = re.compile(r"[^A-Za-z0-9._@#-]+")
MAX_PART_LENGTH = 100
DEFAULT_INSTRUCTIONS = "Something has been delivered to a webhook. Say briefly what it is about."


@dataclass(frozen=True, slots=True)
class WebhookRunRequest:
    """A separate run. `name` is the name of its result. If `report_mode` is None, the result is not posted."""

    prompt: str
    name: str
    session_key: str
    request: RunRequest
    timeout_seconds: float | None
    report_mode: WakeMode | None
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class WebhookWakeRequest:
    """A message to the main session."""

    text: str
    mode: WakeMode


class _Body(BaseModel):
    """Unknown fields are ignored, because senders that use OpenClaw's format may add more."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)


class WakeBody(_Body):
    text: str = Field(min_length=1)
    mode: WakeMode | None = None


class AgentBody(_Body):
    message: str = Field(min_length=1, max_length=60_000)
    name: str = Field("Hook", max_length=200)
    wake_mode: WakeMode | None = None
    session_key: str | None = Field(None, max_length=200)
    deliver: bool | None = None
    channel: Literal["last"] | None = None  # results can only go to the main session
    model: str | None = Field(None, max_length=200)
    thinking: str | None = Field(None, max_length=16)
    timeout_seconds: float | None = Field(None, gt=0, le=86_400)
    agent_id: str | None = Field(None, max_length=64)
    wait_for_completion: bool = False
    to: str | None = None

    @field_validator("to")
    @classmethod
    def _reject_recipient(cls, value: str | None) -> str | None:
        if value:
            raise PydanticCustomError("not_here", "Not supported: results only go to the main session")
        return value


def parse_request(hook: Hook, facts: TemplateValues) -> WebhookRunRequest | WebhookWakeRequest:
    """Raise InvalidRequest if the body has no content or requests something this webhook does not allow."""
    try:
        match hook.slug:
            case "wake":
                body = WakeBody.model_validate(facts.payload)
                return WebhookWakeRequest(
                    wrap_untrusted(hook, truncate(body.text, MAX_EVENT_LENGTH)), _choose_wake_mode(hook, body.mode)
                )
            case "agent":
                return _parse_agent_body(hook, AgentBody.model_validate(facts.payload))
    except ValidationError as error:
        raise InvalidRequest(describe_first_error(error)) from None
    return render_request(hook, facts)


def render_request(hook: Hook, facts: TemplateValues) -> WebhookRunRequest | WebhookWakeRequest:
    """Build the request from the webhook's templates."""
    words = render_template(hook.message_template or WHOLE_PAYLOAD, facts).strip()
    if not words:
        raise InvalidRequest(_("The template of this webhook is empty for this body: none of its values exist."))
    mode = _choose_wake_mode(hook)
    if hook.action == WAKE:
        head = f"{hook.instructions.strip()}\n" if hook.instructions.strip() else ""
        return WebhookWakeRequest(f"{head}{wrap_untrusted(hook, truncate(words, MAX_EVENT_LENGTH))}", mode)
    return WebhookRunRequest(
        prompt=build_prompt(hook, words),
        name=hook.name,
        session_key=_build_session_key(hook, render_template(hook.session_key_template, facts)),
        request=_build_run_request(hook, hook.model, hook.thinking),
        timeout_seconds=hook.timeout_seconds,
        report_mode=mode if hook.deliver else None,
    )


def _parse_agent_body(hook: Hook, body: AgentBody) -> WebhookRunRequest:
    if body.agent_id is not None and body.agent_id != hook.agent:
        raise InvalidRequest(_("This webhook only uses agent %(agent)s. Omit agentId.") % {"agent": hook.agent})
    if body.session_key is not None and not hook.allow_request_session_key:
        raise InvalidRequest(_("Callers of this webhook can’t choose the session. Omit sessionKey."))
    return WebhookRunRequest(
        prompt=build_prompt(hook, body.message),
        name=" ".join(remove_hidden(body.name)[0].split())[:MAX_NAME_LENGTH] or "Hook",
        session_key=_requested_session_key(hook, body.session_key) if body.session_key else _build_session_key(hook, ""),
        request=_build_run_request(hook, body.model or hook.model, body.thinking or hook.thinking),
        timeout_seconds=body.timeout_seconds or hook.timeout_seconds,
        report_mode=_choose_wake_mode(hook, body.wake_mode) if hook.deliver and body.deliver is not False else None,
        wait_seconds=MAX_WAIT_SECONDS if body.wait_for_completion else 0.0,
    )


def _choose_wake_mode(hook: Hook, wished: WakeMode | None = None) -> WakeMode:
    """Return when to post to the main session. Callers can choose later than the webhook's setting, but not sooner."""
    return NOW if hook.wake_mode == NOW and wished in (None, NOW) else "next-heartbeat"


def build_prompt(hook: Hook, words: str) -> str:
    """Return the operator's instructions, followed by the payload."""
    instructions = hook.instructions.strip() or ("" if hook.allow_unsafe else DEFAULT_INSTRUCTIONS)
    return "\n\n".join(part for part in (instructions, wrap_untrusted(hook, words)) if part)


def wrap_untrusted(hook: Hook, words: str) -> str:
    """Mark the text as untrusted, unless an operator trusts the senders of this webhook."""
    return words if hook.allow_unsafe else wrap_untrusted_text(remove_hidden(words)[0], f"the webhook {hook.slug!r}")


def _build_run_request(hook: Hook, model: str, thinking: str) -> RunRequest:
    """Build the request of the run. The tool policy and the sandbox read the webhook from its origin."""
    return RunRequest(
        origin=Origin(webhook=hook.slug),
        model=choose_model(model) if model else "",
        thinking=parse_thinking_level(thinking) if thinking else "",
    )


def _build_session_key(hook: Hook, rendered: str) -> str:
    """Return `agent:<agent>:hook:<path>:<rendered>`, or a new session key each time if `rendered` is blank."""
    own = f"agent:{hook.agent}:{WEBHOOK_CHANNEL}"
    return f"{own}:{hook.slug}:{_to_key_part(rendered)}" if rendered.strip() else f"{own}:{uuid4().hex}"


def _requested_session_key(hook: Hook, wished: str) -> str:
    """Return the key for `hook:<name>`, separate from the sessions of all other webhooks."""
    parsed = parse_key(wished, default_agent=hook.agent)
    if parsed.kind != WEBHOOK_CHANNEL or parsed.agent != hook.agent:
        raise InvalidRequest(f"sessionKey must be `hook:<name>`, got {wished!r}")
    return f"agent:{hook.agent}:{WEBHOOK_CHANNEL}:{AGENT}:{_to_key_part(':'.join(parsed.rest[1:]))}"


def _to_key_part(text: str) -> str:
    """Return one part of a session key. A value that is changed gets a digest, so that different values never share a session."""
    text = text.strip()
    plain = UNSAFE_KEY_CHARACTERS.sub("-", text)[:MAX_PART_LENGTH]
    return plain if plain == text else f"{plain}-{sha256(text.encode(errors='replace')).hexdigest()[:12]}"
