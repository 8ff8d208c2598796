"""Registries of what hosts run: a test can add to them without a trace."""

from typing import get_args

import pytest
from django.utils.module_loading import autodiscover_modules

from clawsite.infra import periodic
from clawsite.infra.process import host as hosting

ROLES: tuple[periodic.Role, ...] = get_args(periodic.Role)


def forget_registrations_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unregister what the test registers when it ends, but keep what apps register when a test imports them first."""
    for role in ROLES:
        autodiscover_modules(f"{role}_tasks")
    monkeypatch.setattr(periodic, "_tasks", dict(periodic._tasks))
    functions = {role: list(functions) for role, functions in hosting._start_functions.items()}
    monkeypatch.setattr(hosting, "_start_functions", functions)
