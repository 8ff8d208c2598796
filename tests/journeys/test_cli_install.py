"""`claw` on an installation: help, invalid settings, doctor."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clawsite.cli.main import COMMANDS
from tests.harness.services import free_port
from tests.journeys.claw_command import PROJECT, ClawResult, clean_environment, run_claw


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return clean_environment(CLAWSITE_HOME=str(tmp_path / "home"), CLAWSITE_PORT=str(free_port()))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of an installation that is ready to start."""
    env = clean_environment(CLAWSITE_HOME=str(tmp_path_factory.mktemp("home")), CLAWSITE_PORT=str(free_port()))
    os.chmod(env["CLAWSITE_HOME"], 0o700)
    assert run_claw("prepare", env=env).code == 0
    return env


def findings(env: dict[str, str]) -> tuple[int, dict[str, dict[str, str]]]:
    outcome = run_claw("doctor", "--json", env=env)
    return outcome.code, {finding["name"]: finding for finding in json.loads(outcome.out)}


def is_one_line_error(outcome: ClawResult, code: int, message: str) -> bool:
    return outcome.code == code and message in outcome.err and outcome.err.startswith("claw: ") and outcome.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"]])
def test_help_lists_project_commands_first_with_summaries(env, arguments) -> None:
    outcome = run_claw(*arguments, env=env)
    lines = [line.split() for line in outcome.out.splitlines() if line.startswith("  ")]
    assert outcome.code == 0
    assert [line[0] for line in lines[: len(COMMANDS)]] == list(COMMANDS)
    assert all(len(line) > 3 for line in lines[: len(COMMANDS)])


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_has_examples(env, name) -> None:
    outcome = run_claw(name, "--help", env=env)
    assert outcome.code == 0
    assert "examples:" in outcome.out
    assert run_claw("help", name, env=env).out == outcome.out


def test_command_list_includes_django_commands(env) -> None:
    outcome = run_claw("help", "--commands", env=env)
    assert {"migrate", "createsuperuser", *COMMANDS} <= set(outcome.out.split())


def test_manage_py_runs_the_same_commands(env) -> None:
    done = subprocess.run(
        [sys.executable, PROJECT / "manage.py", "doctor", "--help"], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == run_claw("doctor", "--help", env=env).out


def test_unknown_command_fails_with_a_suggestion(env) -> None:
    outcome = run_claw("sreve", env=env)
    assert outcome.code == 2
    assert "unknown command: 'sreve'. Did you mean serve?" in outcome.err


@pytest.mark.parametrize("command", ["serve", "migrate", "doctor", "prepare"])
@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("DATABASE_URL", "mysql://x", "postgresql://user:password@host"),
        ("CLAWSITE_ORIGINS", "claw.example.com", "scheme://host"),
        ("CLAWSITE_PORT", "eighty", "CLAWSITE_PORT is 'eighty', which is not a number"),
        ("CLAWSITE_HOME", "/proc/nowhere", "Set CLAWSITE_HOME to a directory you can write to"),
    ],
)
def test_invalid_setting_prints_short_error_with_exit_code_2(env, command, setting, value, message) -> None:
    assert is_one_line_error(run_claw(command, env={**env, setting: value}), 2, message)


def test_prepare_can_be_repeated(prepared) -> None:
    outcome = run_claw("prepare", "--json", env=prepared)
    (line,) = [json.loads(line) for line in outcome.out.splitlines()]
    assert line["done"]["model"] == "demo/clawsite"
    assert "/first-admin/" in line["done"]["link"]


def test_doctor_passes_on_a_new_installation(prepared) -> None:
    code, results = findings(prepared)
    assert code == 0
    assert {name for name, finding in results.items() if finding["level"] == "fail"} == set()
    assert results["database"]["level"] == "ok"
    assert (results["worker"]["level"], results["people"]["level"], results["gateway"]["level"]) == ("warn", "warn", "warn")
    assert all(finding["todo"] for finding in results.values() if finding["level"] != "ok")


def test_doctor_prints_a_result_for_each_check(prepared) -> None:
    outcome = run_claw("doctor", env=prepared)
    marks = [line.split()[0] for line in outcome.out.splitlines() if not line.startswith(" ")]
    assert set(marks) <= {"ok", "warn", "FAIL"}
    assert len(marks) >= 15


def test_doctor_shows_the_address_of_a_gateway_on_another_port(prepared) -> None:
    note = Path(prepared["CLAWSITE_HOME"], "address")
    note.write_text("ws://127.0.0.1:1234/ws\n")
    try:
        _, results = findings(prepared)
    finally:
        note.unlink()
    assert f"no response from ws://127.0.0.1:{prepared['CLAWSITE_PORT']}/ws" in results["gateway"]["text"]
    assert "ws://127.0.0.1:1234/ws" in results["gateway"]["todo"]


@pytest.mark.parametrize("command", ["web", "worker"])
def test_web_and_worker_fail_without_migrations(env, command) -> None:
    assert is_one_line_error(run_claw(command, env=env), 1, "Run `claw prepare`")


def test_doctor_fails_on_an_unmigrated_database(env) -> None:
    code, results = findings(env)
    assert code == 1
    assert "not applied" in results["database"]["text"]


def test_doctor_reports_loose_permissions(prepared) -> None:
    home = Path(prepared["CLAWSITE_HOME"])
    home.chmod(0o755)
    (home / "secret.key").chmod(0o644)
    try:
        code, results = findings(prepared)
    finally:
        home.chmod(0o700)
        (home / "secret.key").chmod(0o600)
    assert code == 1
    assert results["secrets"]["level"] == "fail"
    assert results["home"]["level"] == "warn"


@pytest.mark.parametrize(
    ("name", "level", "settings"),
    [
        ("debug", "warn", {"CLAWSITE_DEBUG": "1"}),
        ("origins", "warn", {"CLAWSITE_HOST": "0.0.0.0"}),
        ("origins", "warn", {"CLAWSITE_ORIGINS": "https://a.example.com,http://b.example.com"}),
        ("origins", "ok", {"CLAWSITE_ORIGINS": "https://a.example.com"}),
        ("proxy", "warn", {"CLAWSITE_ORIGINS": "https://a.example.com"}),
        ("model", "fail", {"CLAWSITE_MODEL": "openai/gpt-5"}),
        ("model", "ok", {"CLAWSITE_MODEL": "openai/gpt-5", "OPENAI_API_KEY": "x"}),
        ("redis", "fail", {"REDIS_URL": "redis://127.0.0.1:1/0"}),
        ("places", "ok", {"CLAWSITE_AUDIT_ANCHOR": "/mnt/elsewhere/audit.jsonl"}),
        ("places", "warn", {"CLAWSITE_AUDIT_ANCHOR": "/usr/local/share/audit.jsonl"}),
    ],
)
def test_doctor_checks_the_settings(prepared, name, level, settings) -> None:
    without_keys = {variable: value for variable, value in prepared.items() if not variable.endswith("_API_KEY")}
    _, results = findings({**without_keys, **settings})
    assert results[name]["level"] == level, results[name]


@pytest.mark.parametrize(
    ("settings", "level"),
    [({}, "warn"), ({"CLAWSITE_PORT": "9123"}, "ok"), ({"CLAWSITE_ORIGINS": "https://a.example.com"}, "ok")],
)
def test_doctor_warns_if_the_server_uses_another_port(prepared, settings, level) -> None:
    note = Path(prepared["CLAWSITE_HOME"], "address")
    note.write_text("ws://127.0.0.1:9123/ws\n")
    try:
        _, results = findings({**prepared, **settings})
    finally:
        note.unlink()
    assert results["origins"]["level"] == level, results["origins"]
    assert ("CLAWSITE_PORT=9123" in results["origins"]["todo"]) == (level == "warn")


def test_invalid_database_file_is_reported_with_a_remedy(env) -> None:
    home = Path(env["CLAWSITE_HOME"])
    home.mkdir(mode=0o700)
    (home / "clawsite.sqlite3").write_bytes(b"this is not a database, it is a poem" * 100)
    assert is_one_line_error(run_claw("migrate", env=env), 1, "not a usable SQLite database")


def test_serve_detects_a_replaced_older_database(prepared, tmp_path) -> None:
    """The fast start reads the database itself, so a restored backup is migrated again."""
    from types import SimpleNamespace

    from clawsite import settings
    from clawsite.cli.serving.readiness import schema_is_current

    file = Path(prepared["CLAWSITE_HOME"], "clawsite.sqlite3")
    seen = SimpleNamespace(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": file}}, INSTALLED_APPS=settings.INSTALLED_APPS
    )
    assert schema_is_current(seen)  # type: ignore[arg-type]
    older = tmp_path / "older.sqlite3"
    with sqlite3.connect(file) as whole, sqlite3.connect(older) as copy:
        whole.backup(copy)
        copy.execute("DELETE FROM django_migrations WHERE app = 'sessions_app'")
    copy.close()
    seen.DATABASES["default"]["NAME"] = older
    assert not schema_is_current(seen)  # type: ignore[arg-type]
    seen.DATABASES["default"]["NAME"] = tmp_path / "none.sqlite3"
    assert not schema_is_current(seen)  # type: ignore[arg-type]


def test_static_files_newer_than_the_manifest_are_collected_again(tmp_path) -> None:
    from types import SimpleNamespace

    from clawsite.cli.serving.readiness import static_is_current

    source, root = tmp_path / "static", tmp_path / "staticfiles"
    source.mkdir()
    root.mkdir()
    (source / "a.css").write_text("a {}")
    seen = SimpleNamespace(STATIC_ROOT=root, STATICFILES_DIRS=[source], INSTALLED_APPS=[])
    assert not static_is_current(seen)  # type: ignore[arg-type]
    (root / "staticfiles.json").write_text("{}")
    assert static_is_current(seen)  # type: ignore[arg-type]
    later = time.time() + 10
    os.utime(source / "a.css", (later, later))
    assert not static_is_current(seen)  # type: ignore[arg-type]
