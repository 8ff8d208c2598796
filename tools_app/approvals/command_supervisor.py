"""Supervise commands and what is typed into them: the Supervisor of the tools `exec` and `process`.

The gate checks a command four times, because what a line does can change while it waits for an approver or starts:

1. `plan`, before the answer of the model is stored: the gate parses the line, resolves its programs and scripts, and the plan
   records them. `decide` judges this plan; approvers see it.
2. `plan` again, when the run continues after it was parked or recovered, or after an earlier call of the turn that may have
   changed its scripts. `decide` compares the hash with the approved one: a program replaced in the meantime voids the approval.
3. `exec.planning.find_changes`, called by the tool after `check_still_allowed` and the commit that marks the call as started:
   programs, scripts, environment and sandbox level may have changed since the plan, and rules and grants can't see that.
4. `find_changes` once more in `exec.processes.keeper`, after the launcher has set up the sandbox and right before it receives
   *go*: setting it up takes long enough to swap a file.
"""

from clawsite.infra.reasons import Reason
from sessions_app.runs.types import ClaimedRun
from tools_app.approvals.command_decision import decide_command, use_approval_or_grants
from tools_app.core.supervision import Supervision
from tools_app.exec.plan import PlannedCommand


class CommandSupervisor:
    """The part of a Supervisor that all tools for commands share; each tool makes its own plans."""

    def decide(self, run: ClaimedRun, planned: PlannedCommand, *, why: str, version: int) -> Supervision:
        return decide_command(run, planned, why=why, version=version)

    def check_still_allowed(self, run: ClaimedRun, planned: PlannedCommand, decided: Supervision) -> Reason | None:
        return use_approval_or_grants(run, planned, decided)
