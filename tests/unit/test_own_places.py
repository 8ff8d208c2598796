"""Server files outside the state directory are known, and every command's sandbox hides or protects them."""

import sys
from pathlib import Path

import pytest

from clawsite.infra.protected_paths import code_paths, secret_paths
from tools_app.exec.plan import ExecPlan
from tools_app.exec.planning import sandbox_from_plan


@pytest.fixture
def elsewhere(settings, tmp_path, monkeypatch):
    """Server files, each in a separate directory, with paths as operators write them: with links and double slashes."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    settings.HOME, settings.BASE_DIR = tmp_path / "link" / "home", tmp_path / "code"
    settings.AUDIT_ANCHOR, settings.RAW_STREAM_LOG = f"/{tmp_path}/audit.jsonl", ""
    monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", "django.db.backends.sqlite3")
    monkeypatch.setitem(settings.DATABASES["default"], "NAME", Path(f"/{tmp_path}/link/db.sqlite3"))
    return tmp_path


def test_protected_paths_are_resolved(elsewhere):
    real = elsewhere / "real"
    assert secret_paths() == (real / "home", elsewhere / "audit.jsonl", real / "db.sqlite3")
    assert code_paths()[0] == elsewhere / "code"
    assert Path(sys.prefix).resolve() in code_paths() or sys.prefix == sys.base_prefix


def test_non_file_database_has_no_protected_path(elsewhere, settings, monkeypatch):
    monkeypatch.setitem(settings.DATABASES["default"], "NAME", "file:memorydb?mode=memory")
    assert secret_paths() == (elsewhere / "real" / "home", elsewhere / "audit.jsonl")


def test_sandbox_protects_secret_and_code_paths(elsewhere):
    words = dict.fromkeys(("line", "cwd", "environment_hash", "tool", "agent", "session", "call", "home"), "")
    numbers = {"run": 1, "level": 2, "timeout_s": 1, "network": False, "background": False, "pty": False}
    sandbox = sandbox_from_plan(ExecPlan(**words, **numbers, argv=None, executables=(), workspace=str(elsewhere), access="rw"))
    assert (sandbox.hidden, sandbox.unwritable) == (secret_paths(), code_paths())
