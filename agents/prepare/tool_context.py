"""Build the toolset for a message: the tools' environment and the policy query. Shared by runs and previews of runs."""

import uuid
from dataclasses import dataclass

from agents.context.workspace import SessionWorkspace
from agents.llm.catalog import ResolvedModel
from agents.llm.prices import takes_images
from agents.models import Agent
from sessions_app.keys import parse_key
from sessions_app.origin import ORDINARY_ORIGIN, Origin, TokenLimits
from tools_app.core.definition import ToolEnv
from tools_app.policy.catalog import WEBHOOK_CHANNEL
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules
from tools_app.sources.registry import ToolRegistry
from tools_app.toolset import Toolset, build_toolset


@dataclass(frozen=True, slots=True)
class ToolContext:
    """A message in a session, and the agent and model that handle it."""

    agent: Agent
    model: ResolvedModel
    workplace: SessionWorkspace
    session_id: uuid.UUID
    session_key: str
    session_owner_id: int
    sender_id: int  # may be a guest
    run_pk: int = 0  # 0 for a preview
    origin: Origin = ORDINARY_ORIGIN
    token_limits: TokenLimits | None = None

    def toolset(self, rules: PolicyRules, known: ToolRegistry) -> Toolset:
        return build_toolset(self._build_env(), self._build_query(), rules, known)

    def _build_env(self) -> ToolEnv:
        return ToolEnv(
            workspace=self.workplace.directory,
            agent_workspace=self.workplace.agent_workspace,
            agent=self.agent.slug,
            owner_id=self.session_owner_id,
            session_id=str(self.session_id),
            session_key=self.session_key,
            run_pk=self.run_pk,
            model=self.model.display_name,
            takes_images=takes_images(self.model.display_name),
            sender_id=self.sender_id,
            through=self.origin.through,
        )

    def _build_query(self) -> PolicyQuery:
        """Build the query that the nine policy layers evaluate for every tool."""
        key = parse_key(self.session_key)
        hook = self.origin.webhook or key.hook
        return PolicyQuery(
            agent=self.agent.slug,
            is_owner=self.sender_id == self.session_owner_id and not hook,  # webhook content comes from others
            is_subagent=key.is_subagent,
            provider=self.model.provider,
            model=self.model.model,
            channel=WEBHOOK_CHANNEL if hook else key.channel,
            group=hook or key.group,
            sender=self.origin.sender,
            sandboxed=self.workplace.sandboxed,
            visiting=bool(hook) and not key.hook,
            key=self.token_limits,
        )
