"""OpenClaw's methods that don't exist here are listed with a reason in docs/openclaw-clients.md."""

import re
from pathlib import Path

from clawsite.gateway.server import registry
from tests.protocol.openclaw.test_schema import published

DOCUMENT = Path(__file__).parents[3] / "docs" / "openclaw-clients.md"
HANDSHAKE = {"connect"}  # not in the registry: it precedes authentication


def rows() -> list[str]:
    """Return the first column of the tables: a method, or `family.*` for all methods with that prefix."""
    _, _, section = DOCUMENT.read_text().partition("## Methods that are not available")
    columns = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [name for column in columns for name in re.findall(r"`([^`]+)`", column)]


def covered(row: str, names: set[str]) -> set[str]:
    return {name for name in names if (name.startswith(row[:-1]) if row.endswith(".*") else name == row)}


def test_every_openclaw_method_exists_or_is_listed_absent():
    absent = published()["methods"].keys() - registry.list_methods().keys() - HANDSHAKE
    assert sorted(absent - {name for row in rows() for name in covered(row, absent)}) == []


def test_absent_list_contains_only_missing_openclaw_methods():
    ours, theirs = set(registry.list_methods()), set(published()["methods"])
    told = rows()
    assert sorted(told) == sorted(set(told))
    assert [row for row in told if covered(row, ours) or not covered(row, theirs)] == []
