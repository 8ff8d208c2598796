"""Types for supervised tools: a plan of exactly what would happen, and the decision about that plan. Pure.

A tool that can do harm first states what it would do (`plan`). The plan is judged, shown to approvers if needed, bound to
its hash, and carried out unchanged. A factory declared with `supervised=True` returns a callable that is also a `Supervisor`.
tools_app.approvals.command_supervisor is the one for commands.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from clawsite.infra.reasons import Reason

EXEC_DENIED = "exec_denied"


class Plan(Protocol):
    """An immutable description of what will happen. The hash covers everything an approver approves."""

    @property
    def hash(self) -> str: ...
    @property
    def depends_on_files(self) -> bool:
        """Whether an earlier call of the same turn may change what the plan would do."""

    def to_json(self) -> dict[str, Any]: ...


class PlannedCall(Protocol):
    """A plan together with what its supervisor needs to decide it."""

    @property
    def plan(self) -> Any: ...  # a Plan


def denial_text(reason: Reason) -> str:
    """Describe a denial to the model. Models and clients recognize a denied command by the first word."""
    return f"{EXEC_DENIED}: {reason.text} It did not run." if reason.code.startswith(("exec.", "gate.")) else reason.text


@dataclass(frozen=True, slots=True)
class Supervision:
    """The decision about one plan, with the reason if it is denied. `approval` is the ID of the pending request."""

    effect: Literal["allow", "ask", "deny"]
    reason: Reason | None = None
    plan: Plan | None = None
    approval: str = ""
    newly_requested: bool = False  # the approval request is new and must be announced
    announcement: dict[str, Any] = field(default_factory=dict)  # sent to clients that follow the chat
    grants: tuple[int, ...] = ()  # grants that allowed it; each is used once when the call starts
    code: str = EXEC_DENIED
    unanswered: bool = False  # the approval request expired, but the allowlist allows the command

    @property
    def message(self) -> str:
        """The text for the model."""
        return denial_text(self.reason) if self.reason else ""


@runtime_checkable
class Supervisor(Protocol):
    """Plans and decides the calls of one tool in one run. `run` is a ClaimedRun and `ref` a CallRef."""

    async def plan(self, args: Any, ref: Any) -> Any:
        """Return what the call would do as a PlannedCall, or None if it needs no decision. Raise ToolFailed if it can't be planned.

        Changes nothing. Runs before the transaction that decides the call, and again if the run was parked or recovered.
        """

    def decide(self, run: Any, planned: Any, *, why: str, version: int) -> Supervision:
        """Decide by the current rules, in the transaction that decides all calls of the turn. Creates approval requests.

        `why` is the agent's explanation, `version` that of the tool policy.
        """

    def check_still_allowed(self, run: Any, planned: Any, decided: Supervision) -> Reason | None:
        """Return why an allowed call must not start after all, or None.

        Runs in the transaction that marks the call as started, and uses up what allowed it.
        """


@dataclass(frozen=True, slots=True)
class SupervisedCall:
    """A call of a supervised tool before its decision. Without a plan, it is already decided."""

    supervisor: Supervisor
    planned: PlannedCall | None = None
    decided: Supervision = Supervision("allow")

    def decide(self, run: Any, *, why: str, version: int) -> Supervision:
        return self.decided if self.planned is None else self.supervisor.decide(run, self.planned, why=why, version=version)

    def check_still_allowed(self, run: Any, decided: Supervision) -> Reason | None:
        return None if self.planned is None else self.supervisor.check_still_allowed(run, self.planned, decided)


def deny_unplanned_call(problem: str, code: str) -> Supervision:
    """Deny a call that has no plan. `problem` is the text for the model."""
    return Supervision("deny", Reason("call.not_planned", problem=problem), code=code)
