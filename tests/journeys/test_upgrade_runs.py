"""Upgrade a database with runs from before reasons were codes, requests had a type and waits were rows. All of them continue.

The dumps were written by that version. They hold ended runs with verdicts and approvals of every kind, parked runs (one waits for
an approval, one for two, one is frozen) and queued runs with options of every kind. Users: ada, approver bob, operator olga.
"""

import html
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.journeys.old_database import OldDatabase, UpgradedServer

pytestmark = pytest.mark.dialect

ROOT = Path(__file__).parent.parent.parent
PASSWORD = "a-long-test-password"
PARKED = ["both approval", "both approval", "frozen frozen", "pending approval"]
# The command was approved on another machine, and a plan names files and directories. This is the plan for this machine.
PLAN_AGAIN = """
from types import SimpleNamespace

import django

django.setup()
from agents.context.workspace import ensure_workspace
from agents.models import Agent
from tests.harness.approvals import plan_command
from tools_app.models import Approval

for approval in Approval.objects.filter(status="pending").select_related("run__session"):
    run, session = approval.run, approval.session
    files = ensure_workspace(Agent.objects.get(slug="main"), run.owner_id)
    facts = {"session_id": session.pk, "session_key": session.key, "session_owner_id": session.owner_id}
    claimed = SimpleNamespace(pk=run.pk, agent="main", **facts)
    plan = plan_command(claimed, files, approval.plan["line"], approval.call_id).plan
    Approval.objects.filter(pk=approval.pk).update(plan=plan.to_json(), plan_hash=plan.hash)
"""


@pytest.fixture(scope="module")
def old_database(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> OldDatabase:
    return OldDatabase(tmp_path_factory.mktemp("upgrade") / "home", "database_before_reasons")


@pytest.fixture(scope="module")
def upgraded(old_database: OldDatabase) -> Iterator[UpgradedServer]:
    with old_database.upgrade() as server:
        yield server


def runs_in(database: OldDatabase, *statuses: str) -> list[str]:
    listed = ", ".join(f"'{status}'" for status in statuses)
    return database.query(f"SELECT run_id FROM sessions_app_run WHERE status IN ({listed})")


def test_parked_and_queued_runs_continue(old_database: OldDatabase, upgraded: UpgradedServer) -> None:
    waits = "SELECT r.run_id || ' ' || w.kind FROM sessions_app_runwait w JOIN sessions_app_run r ON r.id = w.run_id"
    assert old_database.query(waits) == PARKED
    upgraded.served.until(lambda: not runs_in(old_database, "accepted", "running"))
    assert runs_in(old_database, "waiting") == ["both", "frozen", "pending"]

    (frozen,) = old_database.query("SELECT id FROM sessions_app_run WHERE run_id = 'frozen'")
    upgraded.run("panic", "--resume", "--run", frozen, "--reason", "all is well")
    upgraded.served.until(lambda: runs_in(old_database, "waiting") == ["both", "pending"])

    env = upgraded.served.env | {"DJANGO_SETTINGS_MODULE": "clawsite.settings"}
    subprocess.run([sys.executable, "-c", PLAN_AGAIN], check=True, cwd=ROOT, env=env)
    bob = upgraded.create_token("bob", "operator.approvals")
    for approval in old_database.query("SELECT id FROM tools_app_approval WHERE status = 'pending'"):
        upgraded.run("approvals", "approve", approval, token=bob)
    upgraded.served.until(lambda: not runs_in(old_database, "accepted", "running", "waiting"))
    files = {path.name for path in old_database.home.rglob("*") if path.name in ("made", "one", "two")}
    assert files == {"made", "one", "two"}
    assert old_database.query("SELECT kind FROM sessions_app_runwait") == []
    failed = {"failed", "poisoned", "timeout"}  # before the upgrade
    assert set(runs_in(old_database, "error")) == failed
    assert len(runs_in(old_database, "completed")) == 31 - len(failed) - len(runs_in(old_database, "aborted"))


# Run ID -> texts on the page of the run, and of its approval request. Prose that had no code stays as it was stored.
RUN_TEXTS = {
    "en": {
        "approved": "approved once by bob",
        "always": "allowed always by bob: for 90 days, for this agent, in all chats",
        "granted": "allowed by grant #1 from bob",
        "denied": "an approver denied the command: not today",
        "refused": "denied by layer agent: deny entry `grep`|no search engine is configured|no such tool in this run",
        "failed": "the model provider rejected the API key",
        "timeout": "it timed out",
        "poisoned": "its worker crashed repeatedly",
        "aborted": "the user stopped it",
    },
    "zh-hans": {
        "approved": "由 bob 批准一次",
        "always": "由 bob 始终允许：为期 90 天",
        "granted": "由授权 #1（bob 授予）允许",
        "denied": "an approver denied the command: not today",
        "refused": "策略层 agent 拒绝：拒绝项 `grep`|未配置搜索引擎|本次运行中没有此工具",
        "failed": "模型提供方拒绝了 API 密钥",
        "timeout": "已超时",
        "poisoned": "工作进程多次异常退出",
        "aborted": "由用户停止",
    },
}
APPROVAL_TEXTS = {
    "en": {
        "approved": "bob approved it once",
        "always": "bob chose “Always allow”",
        "denied": "bob denied it|not today",
        "expired": "No decision before the deadline.",
        "skipped": "The command is no longer needed.",
        "stopped": "The run ended: the user stopped it.",
        "changed": "bob approved it once; canceled before it started|executables changed",
    },
    "zh-hans": {
        "approved": "bob 批准了一次",
        "always": "bob 选择了“始终允许”",
        "denied": "bob 拒绝了|not today",
        "expired": "截止前未处理。",
        "skipped": "不再需要该命令。",
        "stopped": "运行已结束：由用户停止。",
        "changed": "bob 批准了一次；在开始之前已取消|executables changed",
    },
}


@contextmanager
def sign_in(server: UpgradedServer, user: str, language: str) -> Iterator[httpx.Client]:
    address = f"http://127.0.0.1:{server.served.port}"
    with httpx.Client(base_url=address, follow_redirects=True, headers={"Accept-Language": language}) as browser:
        token = re.search(r'csrfmiddlewaretoken" value="([^"]+)"', browser.get("/sign-in/").text)
        assert token
        form = {"username": user, "password": PASSWORD, "csrfmiddlewaretoken": token[1]}
        assert browser.post("/sign-in/", data=form, headers={"Referer": f"{address}/sign-in/"}).url.path != "/sign-in/"
        yield browser


def text_of(page: httpx.Response) -> str:
    assert page.status_code == 200
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", page.text).split()))


@pytest.mark.parametrize("language", RUN_TEXTS)
def test_pages_show_old_verdicts_and_approvals(old_database: OldDatabase, upgraded: UpgradedServer, language: str) -> None:
    with sign_in(upgraded, "ada", language) as browser:
        for run_id, texts in RUN_TEXTS[language].items():
            (pk,) = old_database.query(f"SELECT id FROM sessions_app_run WHERE run_id = '{run_id}'")
            page = text_of(browser.get(f"/runs/{pk}/"))
            assert [text for text in texts.split("|") if text not in page] == [], run_id
    approval_of = "SELECT a.id FROM tools_app_approval a JOIN sessions_app_run r ON r.id = a.run_id WHERE r.run_id"
    with sign_in(upgraded, "bob", language) as browser:
        for run_id, texts in APPROVAL_TEXTS[language].items():
            (approval,) = old_database.query(f"{approval_of} = '{run_id}'")
            page = text_of(browser.get(f"/approvals/{uuid.UUID(approval)}/"))
            assert [text for text in texts.split("|") if text not in page] == [], run_id
