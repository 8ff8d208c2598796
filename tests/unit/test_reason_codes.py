"""Every reason code in the source is registered in every process, and every registered code is used."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawsite.infra.reasons import LEGACY, registered_reasons

ROOT = Path(__file__).parents[2]
BUILT = ("example.", "run.", "changed.")  # of tests, or built from the name of a run's end code or of a plan's field
PACKAGES = ("agents", "clawsite", "sessions_app", "tools_app")


def read_modules() -> Iterator[ast.Module]:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if "migrations" not in path.parts:
                yield ast.parse(path.read_text())


def find_calls(module: ast.Module, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def find_strings(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def test_every_reason_in_the_source_is_registered():
    codes = {
        call.args[0].value
        for module in read_modules()
        for call in find_calls(module, "Reason")
        if call.args and isinstance(call.args[0], ast.Constant)
    }
    assert "policy.no_rule" in codes
    assert codes - registered_reasons().keys() == set()


def test_every_registered_code_is_used():
    used: set[str] = set()
    for module in read_modules():
        registrations = {id(each) for call in find_calls(module, "register_reasons") for each in ast.walk(call)}
        used |= {
            node.value
            for node in ast.walk(module)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in registrations
        }
    unused = {code for code in registered_reasons() if code not in used and not code.startswith(BUILT)} - {LEGACY}
    assert unused == set()


@pytest.mark.parametrize("modules", ["clawsite.asgi, clawsite.urls", "django; django.setup(); import agents.worker"])
def test_every_process_can_show_every_reason(modules):
    """A web process shows what a worker stored, before it has evaluated anything itself."""
    declared = {
        key.value
        for module in read_modules()
        for call in find_calls(module, "register_reasons")
        for key in getattr(call.args[0], "keys", [])
        if isinstance(key, ast.Constant)
    }
    assert "tool.no_workspace" in declared
    script = f"import {modules}\nfrom clawsite.infra.reasons import registered_reasons\nprint(*registered_reasons(), sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert declared - set(loaded.stdout.split()) == set()
