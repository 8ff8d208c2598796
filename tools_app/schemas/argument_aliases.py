"""Other names for arguments, taken at call time: models use those they were trained with. Data, and one pure function.

The schema keeps our own names alone. Showing an alias beside its original would make neither of them required, and invite
models to send both; a model that was trained on `file_path` sends it whatever the schema says, and is understood.
"""

from collections.abc import Mapping
from typing import Any

# Tool -> (name a model may use -> name the tool has). Case and underscores do not count: `filePath` is `file_path`.
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
    """The arguments under the names that the parameters declare. What has no such name stays, for the check to refuse."""
    own = parameters.get("properties", {})
    if arguments.keys() <= own.keys():
        return dict(arguments)
    by_spelling = {_normalize_name(alias): name for alias, name in ALIASES.get(tool, {}).items() if name in own}
    by_spelling |= _unambiguous_names(own)
    named = {name: value for name, value in arguments.items() if name in own}
    for name, value in arguments.items():
        meant = by_spelling.get(_normalize_name(name), name)
        # A name that was sent both ways keeps its own value; the other is told to be unknown.
        named.setdefault(meant if meant not in named else name, value)
    return named


def _unambiguous_names(own: Mapping[str, Any]) -> dict[str, str]:
    """Names by their bare spelling, without those that only case or underscores keep apart."""
    spelled: dict[str, list[str]] = {}
    for name in own:
        spelled.setdefault(_normalize_name(name), []).append(name)
    return {bare: names[0] for bare, names in spelled.items() if len(names) == 1}


def _normalize_name(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
