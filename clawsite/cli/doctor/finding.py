"""The result of one `claw doctor` check."""

from dataclasses import dataclass
from typing import Literal

CheckLevel = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class CheckResult:
    name: str
    level: CheckLevel
    text: str
    todo: str = ""
