"""What a supervised tool adds to the door: a plan of exactly what would happen, and what was decided about that plan. Pure.

A tool that can do harm says first what it would do (`plan`). The plan is judged, perhaps shown to people, bound to its hash,
and carried out as it stands. tools_app.execution does this for commands.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


class Plan(Protocol):
    """What will happen, immutable. The hash covers everything that a person agrees to."""

    @property
    def hash(self) -> str: ...
    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Supervision:
    """The decision about one plan. `words` go to the model when it is denied; `approval` is the question that it waits for."""

    effect: Literal["allow", "ask", "deny"]
    words: str = ""
    plan: Plan | None = None
    approval: str = ""
    newly_requested: bool = False  # the question is new, and is told
    told: dict[str, Any] = field(default_factory=dict)  # about it, to those who follow the chat
    grants: tuple[int, ...] = ()  # that allowed it, each to be used once more when it starts
    code: str = "exec_denied"
    unanswered: bool = False  # it was asked about, nobody answered, and the list allows it
