"""Facts of a summary that must not depend on a model: failed tools, files read and files changed. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.llm.messages import AssistantMessage, Message, ToolCallRequest, ToolResultMessage
from tools_app.core.untrusted_markers import remove_untrusted_text

MAX_FAILURES, MAX_FAILURE_LENGTH = 8, 240
MAX_FILES = 50  # the newest of each list
READING_TOOLS, CHANGING_TOOLS = {"read", "image"}, {"write", "edit", "apply_patch"}
PATCHED_PATH = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CompactionFacts:
    """Each list has no duplicates; the newest item is last."""

    failures: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any]) -> "CompactionFacts":
        """Parse the facts of an earlier summary; ignores malformed values, because it may be imported."""
        return cls(*(_parse_strings(meta.get(name)) for name in ("toolFailures", "filesRead", "filesChanged")))

    def to_meta(self) -> dict[str, list[str]]:
        lists = {"toolFailures": self.failures, "filesRead": self.read, "filesChanged": self.changed}
        return {name: list(items) for name, items in lists.items() if items}

    def as_text(self) -> str:
        """Render the text that is appended to a summary."""
        lists = (("Tools that failed", self.failures), ("Files read", self.read), ("Files changed", self.changed))
        return "\n\n".join(f"### {title}\n\n" + "\n".join(f"- {item}" for item in items) for title, items in lists if items)


@dataclass(slots=True)
class _FactCollector:
    failures: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def collect_facts(messages: Iterable[Message], before: CompactionFacts) -> CompactionFacts:
    """Add the facts of these messages to the earlier ones."""
    facts = _FactCollector(list(before.failures), list(before.read), list(before.changed))
    open_calls: dict[str, ToolCallRequest] = {}
    for message in messages:
        match message:
            case AssistantMessage(tool_calls=calls):
                open_calls |= {call.id: call for call in calls}
            case ToolResultMessage(call_id=call_id, name=name, text=text, is_error=True):
                error = " ".join(remove_untrusted_text(text).split())  # truncated untrusted text would lose its envelope
                facts.failures.append(
                    f"{_inline_code(name)}: {error[:MAX_FAILURE_LENGTH]}{'…' if len(error) > MAX_FAILURE_LENGTH else ''}"
                )
                open_calls.pop(call_id, None)
            case ToolResultMessage(call_id=call_id) if call_id in open_calls:
                call = open_calls.pop(call_id)
                paths = [_inline_code(path) for path in _list_paths(call)]
                if call.name in READING_TOOLS:
                    facts.read += paths
                elif call.name in CHANGING_TOOLS:
                    facts.changed += paths
    return CompactionFacts(
        _keep_newest(facts.failures, MAX_FAILURES), _keep_newest(facts.read, MAX_FILES), _keep_newest(facts.changed, MAX_FILES)
    )


def _list_paths(call: ToolCallRequest) -> list[str]:
    given = next((call.arguments[name] for name in ("path", "file_path") if isinstance(call.arguments.get(name), str)), None)
    if given is not None:
        return [given]
    return [path.strip() for text in call.arguments.values() if isinstance(text, str) for path in PATCHED_PATH.findall(text)]


def _inline_code(text: str) -> str:
    return f"`{' '.join(text.replace('`', ' ').split())[:200]}`"


def _keep_newest(items: list[str], limit: int) -> tuple[str, ...]:
    """Drop duplicates, keeping the later one, and limit the length."""
    return tuple(reversed(list(dict.fromkeys(reversed(items)))[:limit]))


def _parse_strings(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
