"""Read what doesn't depend on a run's model: agent, workspace, offered tools, stored history, limits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.conf import settings

from agents import selectors
from agents.context.workspace import SessionWorkspace, prepare_session_workspace
from agents.llm.messages import ToolCallRequest
from agents.models import Agent
from clawsite.infra import db
from sessions_app.run_request import Invocation, reader_origin
from sessions_app.runs.queue import ClaimedRun
from sessions_app.transcript.messages import HistoryEntry, read_model_history
from tools_app.core.plugin_hooks import PluginHook
from tools_app.exec.rules import ExecRules, rules_for_run
from tools_app.policy.rules import PolicyRules
from tools_app.policy_store.policies import current_rules
from tools_app.sources.registry import ToolRegistry
from tools_app.sources.tools import tools_and_hooks


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A claimed run with everything that doesn't depend on the model. `plan_for_model` adds the rest."""

    claimed: ClaimedRun
    agent: Agent
    workplace: SessionWorkspace
    rules: PolicyRules  # at the start of the run; each call is authorized by the current rules
    registry: ToolRegistry
    hooks: tuple[PluginHook, ...]  # run before every tool call
    entries: Sequence[HistoryEntry]  # the stored history

    @property
    def model_name(self) -> str:
        """The model that the run should use: that of the message, the session or the agent."""
        return selectors.choose_model_name(self.agent, self.claimed.request.model, self.claimed.session_model)

    @property
    def timeout_seconds(self) -> float:
        return self.claimed.timeout_seconds or self.agent.run_timeout_seconds or settings.RUN_TIMEOUT_SECONDS

    @property
    def invoked_call(self) -> ToolCallRequest | None:
        """The tool call that a person made without a model, if this run carries out one."""
        match self.claimed.request.kind:
            case Invocation(tool, arguments):
                return ToolCallRequest(f"invoke_{self.claimed.pk}", tool, arguments)
        return None


async def prepare_run(claimed: ClaimedRun) -> RunPlan:
    """Read what the run needs. Raise NotFound if its agent is gone."""
    return await db.read(_read_run, claimed)


async def reread_history(run: RunPlan) -> RunPlan:
    """Read the stored history again, including everything this run has done."""
    return replace(run, entries=await db.read(_read_entries, run.claimed))


def _read_run(claimed: ClaimedRun) -> RunPlan:
    agent, any_exec_rules = selectors.find_agent_to_run(claimed.agent)
    session_id = str(claimed.session_id)
    rules = rules_for_run(claimed) if any_exec_rules else ExecRules()
    # Accesses the disk, so it also runs on the reader thread.
    owner, from_hook = claimed.session_owner_id, bool(claimed.request.origin.webhook)
    workplace = prepare_session_workspace(agent, owner, session_id, claimed.session_key, rules, from_hook=from_hook)
    return RunPlan(claimed, agent, workplace, current_rules(), *tools_and_hooks(), _read_entries(claimed))


def _read_entries(claimed: ClaimedRun) -> Sequence[HistoryEntry]:
    reader = reader_origin(claimed.request, claimed.session_key)
    return read_model_history(claimed.session_id, claimed.generation, claimed.pk, reader)
