"""Types for supervised tools: a plan of exactly what would happen, and the decision about that plan. Pure.

A tool that can do harm first states what it would do (`plan`). The plan is judged, shown to approvers if needed, bound to
its hash, and carried out unchanged. tools_app.exec does this for commands.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


class Plan(Protocol):
    """An immutable description of what will happen. The hash covers everything an approver approves."""

    @property
    def hash(self) -> str: ...
    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Supervision:
    """The decision about one plan. `message` go to the model when it is denied; `approval` is the ID of the pending request."""

    effect: Literal["allow", "ask", "deny"]
    message: str = ""
    plan: Plan | None = None
    approval: str = ""
    newly_requested: bool = False  # the approval request is new and must be announced
    announcement: dict[str, Any] = field(default_factory=dict)  # sent to clients that follow the chat
    grants: tuple[int, ...] = ()  # grants that allowed it; each is used once when the call starts
    code: str = "exec_denied"
    unanswered: bool = False  # the approval request expired, but the allowlist allows the command
