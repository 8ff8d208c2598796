"""Commands that use a running gateway, with a real one."""

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.harness.services import free_port
from tests.harness.stack import Stack
from tests.journeys.claw_command import PROJECT, ClawResult, clean_environment, run_claw, start_claw

_numbers = itertools.count(1)


@pytest.fixture
def env(live: Stack, tmp_path) -> dict[str, str]:
    port = live.url.rsplit(":", 1)[1]
    return clean_environment(CLAWSITE_HOME=str(tmp_path), CLAWSITE_GATEWAY_TOKEN=live.token, CLAWSITE_PORT=port)


@pytest.fixture
def run(env: dict[str, str]) -> Callable[..., ClawResult]:
    return lambda *arguments, **options: run_claw(*arguments, env=env, **options)


@pytest.fixture
def session() -> str:
    return f"agent:main:cli-{next(_numbers)}"


def test_agent_writes_only_the_reply_to_stdout(run, session) -> None:
    outcome = run("agent", 'say it [[text="all is well"]]', "--session", session)
    assert (outcome.code, outcome.out.strip(), outcome.err) == (0, "all is well", "")


def test_agent_starts_over_after_a_session_was_deleted(run, session) -> None:
    assert run("agent", '[[text="before"]]', "--session", session).out.strip() == "before"
    assert run("call", "sessions.delete", "--params", json.dumps({"key": session})).code == 0
    outcome = run("agent", '[[text="after"]]', "--session", session)
    assert (outcome.code, outcome.out.strip(), outcome.err) == (0, "after", "")


def test_agent_shows_tool_calls_on_stderr(run, session) -> None:
    outcome = run("agent", '[[tool=read args={"path":"missing.txt"}]] [[text="done"]]', "--session", session)
    assert outcome.code == 0
    assert outcome.out.strip() == "done"
    assert '· read {"path": "missing.txt"}' in outcome.err
    assert "· read failed:" in outcome.err


def test_agent_separates_tool_calls_from_reply_in_shared_file(env, session, tmp_path) -> None:
    with open(tmp_path / "both", "w") as both:
        message = '[[text="I look."]] [[tool=read args={"path":"missing.txt"}]]'
        argv = [sys.executable, "-m", "clawsite.cli.main", "agent", message, "--session", session]
        subprocess.run(argv, cwd=PROJECT, env=env, stdout=both, stderr=both, timeout=60, check=True)
    lines = (tmp_path / "both").read_text().splitlines()
    assert all(line.startswith("·") for line in lines if "·" in line), lines
    assert any(line.startswith("· read {") for line in lines), lines


def test_agent_reads_the_message_from_stdin(run, session) -> None:
    assert run("agent", "-", "--session", session, stdin='[[text="from a pipe"]]').out.strip() == "from a pipe"


def test_agent_json_prints_the_result_at_the_end(run, session) -> None:
    outcome = run("agent", '[[text="all is well"]]', "--session", session, "--json")
    result = json.loads(outcome.out)
    assert (result["status"], result["text"], result["sessionKey"]) == ("ok", "all is well", session)


def test_failed_run_prints_the_reason_and_exits_with_1(run, session) -> None:
    outcome = run("agent", "[[error=401]]", "--session", session)
    assert outcome.code == 1
    assert outcome.err.startswith("claw: ")
    assert outcome.out == ""


def test_ctrl_c_stops_the_run(env, run, session) -> None:
    with start_claw("agent", "[[tokens=5000 delay_ms=20]]", "--session", session, env=env) as talking:
        assert talking.stdout is not None
        talking.stdout.read(10)  # the answer is being streamed
        talking.send_signal(signal.SIGINT)
        _out, err = talking.communicate(timeout=60)
    assert talking.returncode == 1
    assert "· stopped" in err
    logged = run("logs", "--session", session, "--json").out.splitlines()
    # The worker confirms an abort when it has released the run; repeat until then.
    while not any(json.loads(line)["data"].get("phase") == "end" for line in logged):
        logged = run("logs", "--session", session, "--json").out.splitlines()
    assert json.loads(logged[-1])["data"]["aborted"] is True


def test_reply_is_complete_after_web_process_is_killed(live: Stack, env, session) -> None:
    with start_claw("agent", "[[tokens=300 delay_ms=10]]", "--session", session, env=env) as talking:
        assert talking.stdout is not None
        assert talking.stderr is not None
        answer = talking.stdout.read(40)
        live.webs[0].restart()
        answer += talking.stdout.read()
        notes = talking.stderr.read()
    assert answer.split() == [f"w{n}" for n in range(300)]
    assert "· connection lost; resuming" in notes
    assert talking.returncode == 0


def test_logs_show_every_event_once_in_order(run, session) -> None:
    run("agent", '[[text="one two"]]', "--session", session)
    cursors = [json.loads(line)["cursor"] for line in run("logs", "--session", session, "--json").out.splitlines()]
    assert cursors == list(range(1, len(cursors) + 1))
    text = run("logs", "--session", session, "--after", "1").out
    assert " lifecycle start" in text
    assert "accepted" not in text


def test_logs_follow_continues_after_a_web_restart(live: Stack, env, run, session) -> None:
    run("agent", '[[text="before"]]', "--session", session)
    with start_claw("logs", "--session", session, "--follow", "--json", env=env) as following:
        assert following.stdout is not None
        seen = [json.loads(following.stdout.readline())]
        live.webs[0].restart()
        run("agent", '[[text="after"]]', "--session", session)
        ends = 0
        while ends < 2:
            seen.append(json.loads(following.stdout.readline()))
            ends = sum(event["data"].get("phase") == "end" for event in seen)
        following.send_signal(signal.SIGINT)
        following.communicate(timeout=60)
    assert [event["cursor"] for event in seen] == list(range(1, len(seen) + 1))
    assert following.returncode == 130


def test_logs_show_streamed_text_as_one_entry(run, session) -> None:
    run("agent", "[[tokens=40 delay_ms=5]]", "--session", session)
    lines = [line.split(maxsplit=4)[3:] for line in run("logs", "--session", session).out.splitlines()]
    texts = [what for stream, what in lines if stream == "assistant" and what.startswith('"')]
    assert [json.loads(text).split() for text in texts] == [[f"w{n}" for n in range(40)]]


def test_logs_follow_a_new_session_by_its_short_name(env, run, session) -> None:
    name = session.rsplit(":", 1)[1]
    with start_claw("logs", "--session", name, "--follow", env=env) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        assert f"there is no session {session} yet" in following.stderr.readline()
        run("agent", "[[tokens=40 delay_ms=5]]", "--session", session)
        lines = [following.stdout.readline()]
        while " lifecycle end" not in lines[-1]:
            lines.append(following.stdout.readline())
        following.send_signal(signal.SIGINT)
        following.communicate(timeout=60)
    assert sum(' assistant "' in line for line in lines) == 1


def test_logs_of_a_missing_session_fail(run) -> None:
    outcome = run("logs", "--session", "nope")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("claw: there is no session agent:main:nope yet")


def test_call_prints_the_payload_as_json(run) -> None:
    outcome = run("call", "health")
    assert outcome.code == 0
    assert json.loads(outcome.out)["ok"] is True


def test_call_waits_for_the_end_with_expect_final(run, session) -> None:
    params = json.dumps({"message": '[[text="the end"]]', "sessionKey": session, "idempotencyKey": f"{session}-k"})
    accepted = json.loads(run("call", "agent", "--params", params).out)
    final = json.loads(run("call", "agent", "--params", "-", "--expect-final", stdin=params).out)
    assert (accepted["status"], final["status"]) == ("accepted", "ok")
    assert final["result"]["payloads"] == [{"text": "the end"}]


def test_call_prints_errors_to_stderr_and_exits_with_1(run) -> None:
    outcome = run("call", "no.such.method")
    assert (outcome.code, outcome.out) == (1, "")
    assert json.loads(outcome.err)["code"] == "INVALID_REQUEST"


@pytest.mark.parametrize("params", ["{", "[1]"])
def test_non_object_params_are_a_usage_error(run, params: str) -> None:
    outcome = run("call", "health", "--params", params)
    assert outcome.code == 2
    assert "--params" in outcome.err


def test_status_is_readable_and_exits_with_0_if_healthy(run) -> None:
    outcome = run("status")
    assert outcome.code == 0
    assert outcome.out.startswith("Clawsite ")
    assert "workers" in outcome.out
    assert json.loads(run("status", "--json").out)["health"]["ok"] is True


def test_wrong_token_is_reported(env) -> None:
    outcome = run_claw("status", env={**env, "CLAWSITE_GATEWAY_TOKEN": "wrong-token"})
    assert outcome.code == 1
    assert "rejected the token" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("command", [("status",), ("agent", "hi"), ("call", "health"), ("logs",)])
def test_unreachable_gateway_exits_with_3_and_a_remedy(env, command) -> None:
    outcome = run_claw(*command, env={**env, "CLAWSITE_PORT": str(free_port())})
    assert outcome.code == 3
    assert "claw serve" in outcome.err
    assert "Traceback" not in outcome.err


def test_url_accepts_page_addresses_and_rejects_invalid_ones(live: Stack, env) -> None:
    elsewhere = {**env, "CLAWSITE_PORT": str(free_port())}
    assert run_claw("call", "health", "--url", live.url, env=elsewhere).code == 0
    refused = run_claw("agent", "--url", "http://127.0.0.1:1", "hi", env=env)
    assert (refused.code, refused.err.count("\n")) == (3, 1)
    nonsense = run_claw("agent", "--url", "127.0.0.1:8765", "hi", env=env)
    assert (nonsense.code, nonsense.err.count("\n")) == (2, 1)


def test_missing_token_is_reported_with_its_path(tmp_path) -> None:
    outcome = run_claw("status", env=clean_environment(CLAWSITE_HOME=str(tmp_path)))
    assert outcome.code == 3
    assert f"no gateway token in {tmp_path}" in outcome.err
    assert list(tmp_path.iterdir()) == []  # nothing is created
