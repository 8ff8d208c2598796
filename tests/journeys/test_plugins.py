"""Plugins in a separate worker process: their tools and hooks in real runs, and plugins that can't be imported stop nothing."""

import json

import pytest

from sessions_app.models import Run
from sessions_app.runs import lifecycle
from tests.harness import processes
from tests.harness.plugins import ECHO_PLUGIN, install_plugin
from tests.harness.policies import restore_policy
from tests.harness.worker import calls_of, transcript_of
from tools_app.models import Plugin
from tools_app.policy_store import policies
from tools_app.sources.plugins import IMPORT_TIMEOUT_SECONDS

HOOK = """
from tools_app.core.plugin_hooks import HookAnswer


def no_secrets(call):
    return HookAnswer(block="no secrets") if call.arguments.get("word") == "secret" else None


before_tool_call = [no_secrets]
"""
# Longer than any of our timeouts: it hangs forever at import.
HANGS = "import time\ntime.sleep(3600)\ntools = []\n"
EXITS = "raise SystemExit('this machine is not good enough')\n"


@pytest.fixture
def installed(tmp_path, database):
    """Four plugins, all enabled before anything starts."""
    plugins = {"echo": ECHO_PLUGIN.format(tool="echo_word"), "guard": HOOK, "exits": EXITS, "hangs": HANGS}
    with restore_policy():
        policies.save_policy(scope="agent", subject="main", profile="full")
        for name, code in plugins.items():
            install_plugin(tmp_path, name, code)
            Plugin.objects.create(name=name, enabled=True)
        yield tmp_path


async def test_plugins_work_and_broken_plugin_stops_no_worker(stack, installed, user, make_session, eventually, monkeypatch):
    session = make_session(user)
    monkeypatch.setattr(processes, "TIMEOUT", 60.0 + IMPORT_TIMEOUT_SECONDS)  # the worker's import timeout
    stack(env={"PYTHONPATH": str(installed)})  # ready, so the worker has registered despite the two plugins that can't be imported

    async def say(word: str) -> Run:
        prompt = f"[[tool=echo_word args={json.dumps({'word': word})}]] [[text=done]]"
        accepted = lifecycle.accept_run(user=user, session=session, run_id=f"say {word}", prompt=prompt)
        return await eventually(lambda: Run.objects.filter(pk=accepted.pk, status__in=Run.ENDED).first(), seconds=60)

    # While an import is in progress, the plugin may turn out to have hooks: the run continues, but no tool runs unchecked.
    early = await say("early")
    assert (early.status, transcript_of(early)[-1]) == ("completed", ("assistant", "done"))
    (blocked,) = calls_of(early)
    assert blocked.result["details"] == {"code": "blocked_by_hook", "plugin": "hangs"}
    assert "is still being imported" in transcript_of(early)[2][1]

    Plugin.objects.filter(name="hangs").update(enabled=False)
    said = await say("hello")
    assert [(call.name, call.status) for call in calls_of(said)] == [("echo_word", "finished")]
    assert transcript_of(said)[2] == ("toolResult", "echo_word says hello")
    secret = await say("secret")
    assert secret.status == "completed"
    assert "plugin guard blocked this call: no secrets" in transcript_of(secret)[2][1]

    told = await eventually(lambda: (row := Plugin.objects.get(name="exits")).error and row)
    assert told.error == "SystemExit: this machine is not good enough"
    assert (told.package, Plugin.objects.get(name="echo").tools) == ("clawsite-exits", ["echo_word"])
    assert Plugin.objects.get(name="guard").has_hooks
