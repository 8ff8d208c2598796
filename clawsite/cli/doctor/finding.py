"""What a check of `claw doctor` says."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    name: str
    level: Level
    text: str
    todo: str = ""
