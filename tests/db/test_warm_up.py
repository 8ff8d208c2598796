"""What a worker loads before its first run, in a separate process, because this one has already loaded everything."""

import shutil
import subprocess
import sys

import pytest

from agents import warm_up
from tests.harness.database import pristine_database
from tests.journeys.claw_command import clean_environment

FIRST_RUN = """
import asyncio, sys
import django
django.setup()
from django.db import transaction
from agents.prepare.model_plan import plan_for_model
from agents.prepare.run_plan import prepare_run
from agents.warm_up import warm_up
from agents.worker import Worker
from clawsite.accounts.models import User
from clawsite.infra import db
from sessions_app.runs import queue
from sessions_app.runs.lifecycle import accept_run
from sessions_app.sessions.service import ensure_session

def claim():
    user = User.objects.create(username="ada")
    accept_run(user=user, session=ensure_session(user, "agent:main:main"), run_id="first", prompt="hello")
    with transaction.atomic():
        return queue.claim_runs("worker", 1).runs[0]

async def main():
    claimed = await db.read(claim)
    await warm_up()
    before = set(sys.modules)
    run = await prepare_run(claimed)
    plan = await plan_for_model(run, run.model_name)
    assert plan.toolset.tools
    print(*sorted(set(sys.modules) - before))

asyncio.run(main())
db.close()
"""


@pytest.mark.parametrize("model", ["openai/gpt-5", "demo/clawsite"])
def test_first_run_imports_nothing_after_warm_up(tmp_path, django_db_setup, model):
    shutil.copy(pristine_database(), tmp_path / "clawsite.sqlite3")
    env = clean_environment(
        CLAWSITE_HOME=str(tmp_path), CLAWSITE_MODEL=model, OPENAI_API_KEY="key", DJANGO_SETTINGS_MODULE="clawsite.settings"
    )
    done = subprocess.run([sys.executable, "-c", FIRST_RUN], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
    assert not (tmp_path / "workspaces" / "main" / "user-0").exists()


async def test_failed_warm_up_is_only_logged(database, monkeypatch, caplog):
    monkeypatch.setattr(warm_up.selectors, "list_agents", lambda: 1 / 0)
    await warm_up.warm_up()
    assert "could not prepare for the first run" in caplog.text
