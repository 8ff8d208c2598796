"""Aliases of argument names, resolved at call time, because models use the names they were trained with. Pure.

The schema only has our own names. If it listed aliases too, neither name could be required and models would send both. A model
that was trained on `file_path` sends it whatever the schema says, and the call works.
"""

from collections.abc import Mapping
from typing import Any

# Tool -> (alias -> argument name). Case and underscores are ignored: `filePath` is `file_path`.
_PATH = {"file_path": "path", "filename": "path", "file": "path"}
ALIASES: dict[str, dict[str, str]] = {
    "read": _PATH,
    "write": {**_PATH, "contents": "content", "text": "content"},
    "edit": {**_PATH, "old_string": "old_text", "new_string": "new_text", "old_str": "old_text", "new_str": "new_text"},
    "glob": {"directory": "path"},
    "grep": {"directory": "path", "glob": "include"},
    "image": {**_PATH, "image": "path"},
    "apply_patch": {"patch": "input"},
    "exec": {"cmd": "command", "cwd": "workdir", "timeout_seconds": "timeout"},
    "process": {"session_id": "name", "text": "data"},
}


def apply_aliases(tool: str, arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the arguments to the declared parameter names. Unknown names are kept, so that validation rejects them."""
    declared = parameters.get("properties", {})
    if arguments.keys() <= declared.keys():
        return dict(arguments)
    by_spelling = {_normalize_name(alias): name for alias, name in ALIASES.get(tool, {}).items() if name in declared}
    by_spelling |= _unambiguous_names(declared)
    named = {name: value for name, value in arguments.items() if name in declared}
    for name, value in arguments.items():
        target = by_spelling.get(_normalize_name(name), name)
        # If both a name and its alias are sent, the alias is kept and rejected as unknown.
        named.setdefault(target if target not in named else name, value)
    return named


def _unambiguous_names(declared: Mapping[str, Any]) -> dict[str, str]:
    """Return names by normalized spelling, without those that differ only in case or underscores."""
    by_spelling: dict[str, list[str]] = {}
    for name in declared:
        by_spelling.setdefault(_normalize_name(name), []).append(name)
    return {spelling: names[0] for spelling, names in by_spelling.items() if len(names) == 1}


def _normalize_name(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
