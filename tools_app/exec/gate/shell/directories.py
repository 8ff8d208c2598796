"""Track which directories a line may be in while it changes them. No I/O."""

import os

from tools_app.exec.gate.executables import to_host_path
from tools_app.exec.gate.shell.words import Word
from tools_app.exec.gate.types import ExecContext

Cwds = frozenset[str] | None  # the directories the line may be in at this point; None means anywhere
MAX_CWDS = 8


def merge_cwds(*branches: Cwds) -> Cwds:
    merged: frozenset[str] = frozenset()
    for branch in branches:
        if branch is None:
            return None
        merged |= branch
    return merged if len(merged) <= MAX_CWDS else None


def cwds_after_cd(arguments: tuple[Word, ...], cwds: Cwds, context: ExecContext) -> Cwds:
    """Return the directories after `cd`. bash resolves `..` by name, so `cd link/..` stays put; links are resolved later."""
    words = arguments[1:] if arguments and arguments[0].text == "--" else arguments
    if cwds is None or len(words) != 1 or not words[0].text or words[0].text.startswith("-"):
        return None
    path = to_host_path(words[0].text, context)
    return frozenset(os.path.normpath(os.path.join(cwd, path)) for cwd in cwds)


def changes_directory(node: object) -> bool:
    if isinstance(node, list):
        return any(map(changes_directory, node))
    if not isinstance(node, dict):
        return False
    if node.get("Type") == "CallExpr" and node.get("Args"):
        parts = node["Args"][0].get("Parts", [])
        if len(parts) != 1 or parts[0].get("Type") != "Lit" or parts[0]["Value"] in ("cd", "pushd", "popd"):
            return True
    return any(changes_directory(value) for value in node.values() if isinstance(value, dict | list))
