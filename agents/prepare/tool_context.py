"""For whom the tools of a run are made and what the policy is asked about them. One answer for runs and for looks ahead at one."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.context.workspace import SessionWorkspace
from agents.llm.catalog import ResolvedModel
from agents.llm.prices import takes_images
from agents.models import Agent
from sessions_app.keys import parse_key
from tools_app.core.definition import ToolEnv
from tools_app.policy.catalog import WEBHOOK_CHANNEL
from tools_app.policy.query import PolicyQuery, Sender, TokenLimits
from tools_app.policy.rules import PolicyRules
from tools_app.sources.registry import ToolRegistry
from tools_app.toolset import Toolset, build_toolset


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Somebody's message in a session, and the agent and model that take it up."""

    agent: Agent
    model: ResolvedModel
    workplace: SessionWorkspace
    session_id: uuid.UUID
    session_key: str
    session_owner_id: int
    sender_id: int  # whose message it is, which may be a guest's
    sender: Mapping[str, str]  # what the channel calls them
    run_pk: int = 0  # none yet: it is only being thought of
    hook: str = ""  # the webhook whose words it is about, if any
    through: tuple[tuple[str, str], ...] = ()  # agent and session of those that passed the message on
    key_limits: Mapping[str, Any] | None = None  # of the access token with which they came

    def toolset(self, rules: PolicyRules, known: ToolRegistry) -> Toolset:
        return build_toolset(self._build_env(), self._build_query(), rules, known)

    def _build_env(self) -> ToolEnv:
        return ToolEnv(
            workspace=self.workplace.directory,
            beside=self.workplace.beside,
            agent=self.agent.slug,
            owner_id=self.session_owner_id,
            session_id=str(self.session_id),
            session_key=self.session_key,
            run_pk=self.run_pk,
            model=self.model.display_name,
            takes_images=takes_images(self.model.display_name),
            sender_id=self.sender_id,
            through=self.through,
        )

    def _build_query(self) -> PolicyQuery:
        """Who asks, where, and with which model: what the nine layers are asked about every tool."""
        key = parse_key(self.session_key)
        hook = self.hook or key.hook
        return PolicyQuery(
            agent=self.agent.slug,
            is_owner=self.sender_id == self.session_owner_id and not hook,  # under their account, but not their words
            is_subagent=key.is_subagent,
            provider=self.model.provider,
            model=self.model.model,
            channel=WEBHOOK_CHANNEL if hook else key.channel,
            group=hook or key.group,
            sender=Sender(**self.sender),
            sandboxed=self.workplace.sandboxed,
            visiting=bool(hook) and not key.hook,
            key=TokenLimits.from_json(self.key_limits) if self.key_limits else None,
        )
