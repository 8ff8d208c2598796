"""Turn a server's tool list into the stored form: cleaned, limited, with notes on what was left out. Pure."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tools_app.core.hidden_characters import has_hidden_characters
from tools_app.sources.mcp.names import clean_label, make_tool_name
from tools_app.sources.mcp.schema import UnusableSchema, clean_schema

MAX_TOOLS = 200
MAX_NAME_LENGTH, MAX_TITLE_LENGTH, MAX_DESCRIPTION_LENGTH = 128, 80, 2_000
MAX_NOTES = 20
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True, slots=True)
class ToolListing:
    """`tools` is what the row stores; `notes` tell the operator what was left out and why."""

    tools: list[dict[str, Any]]
    notes: list[str]

    @property
    def digest(self) -> str:
        """A hash that changes when anything stored in the row changes."""
        return hashlib.sha256(json.dumps([self.tools, self.notes], sort_keys=True).encode()).hexdigest()[:16]


def build_listing(server: str, tools_listed: Iterable[dict[str, Any]]) -> ToolListing:
    """Build the listing from the server's list in wire form."""
    tools: dict[str, dict[str, Any]] = {}
    notes: list[str] = []
    for number, tool in enumerate(tools_listed):
        shown = clean_label(str(tool.get("name", "")), 60)
        if number >= MAX_TOOLS:
            notes.append(f"only the first {MAX_TOOLS} tools are used")
            break
        try:
            cleaned = _clean_tool(tool)
        except UnusableSchema as unusable:
            notes.append(f"{shown}: {unusable}")
            continue
        name = make_tool_name(server, cleaned["name"])
        if name in tools:
            notes.append(f"{shown}: its name becomes {name}, which is already used by {clean_label(tools[name]['name'], 60)}")
        else:
            tools[name] = cleaned
    return ToolListing(list(tools.values()), notes[:MAX_NOTES])


def _clean_tool(tool: dict[str, Any]) -> dict[str, Any]:
    name = tool.get("name")
    if not isinstance(name, str) or not name or len(name) > MAX_NAME_LENGTH or has_hidden_characters(name):
        raise UnusableSchema(f"its name is empty, longer than {MAX_NAME_LENGTH} characters or has invisible characters")
    hints = tool.get("annotations") or {}
    title = tool.get("title") or hints.get("title") or ""
    return {
        "name": name,
        "title": clean_label(str(title), MAX_TITLE_LENGTH),
        "description": clean_label(str(tool.get("description") or ""), MAX_DESCRIPTION_LENGTH),
        "inputSchema": clean_schema(tool.get("inputSchema")),
        "annotations": {hint: hints[hint] for hint in HINTS if isinstance(hints.get(hint), bool)},
    }


def is_included(name: str, include: Iterable[str], exclude: Iterable[str]) -> bool:
    """Whether the operator's patterns include a tool: exclude wins, and an empty include means all."""
    include = list(include)
    if any(fnmatchcase(name, pattern) for pattern in exclude):
        return False
    return not include or any(fnmatchcase(name, pattern) for pattern in include)
