"""/metrics: who can read it, and that its values are correct for every process on the host."""

import os
import time

import pytest
from django.test import AsyncClient
from prometheus_client.parser import text_string_to_metric_families

from clawsite.gateway.server import runtime
from clawsite.infra.observability import metrics
from sessions_app.runs.lifecycle import accept_run
from tests.harness.approvals import create_approval
from tests.harness.users import create_token

pytestmark = pytest.mark.dialect


@pytest.fixture
async def scrape(database):
    """Request the metrics; return (status, {(name, labels without the process): value})."""

    async def ask(token: str = "", **headers: str):
        if token:
            headers["Authorization"] = f"Bearer {token}"
        answer = await AsyncClient().get("/metrics", headers=headers)
        if answer.status_code != 200:
            return answer.status_code, {}
        found: dict = {}
        for family in text_string_to_metric_families(answer.content.decode()):
            for sample in family.samples:
                labels = frozenset((name, value) for name, value in sample.labels.items() if name != "process")
                found[sample.name, labels] = found.get((sample.name, labels), 0) + sample.value
        return 200, found

    yield ask
    await runtime.stop()


def value(found, name, **labels):
    return found[name, frozenset(labels.items())]


@pytest.mark.parametrize("group", ["Operator", "Auditor"])
async def test_operators_and_auditors_can_read_metrics(scrape, make_user, group):
    status, found = await scrape(create_token(make_user(group)))
    assert status == 200
    assert value(found, "clawsite_database_up") == 1


async def test_other_clients_cannot_read_metrics(scrape, user):
    assert (await scrape())[0] == 401
    assert (await scrape("claw_not_a_token"))[0] == 401
    assert (await scrape(create_token(user)))[0] == 403
    assert (await scrape("test-gateway-token"))[0] == 403


async def test_metrics_token_grants_access(scrape, settings):
    settings.METRICS_TOKEN = "for-prometheus"
    assert (await scrape("for-prometheus"))[0] == 200
    assert (await scrape("for-prometheuS"))[0] == 401


async def test_loopback_clients_need_no_token_if_enabled(scrape, settings):
    settings.METRICS_LOOPBACK = True
    assert (await scrape())[0] == 200
    assert (await scrape(**{"X-Forwarded-For": "203.0.113.9"}))[0] == 401
    settings.METRICS_LOOPBACK = False
    assert (await scrape())[0] == 401


async def test_metrics_match_database_rows(scrape, settings, user, make_session):
    settings.METRICS_TOKEN = "t"
    accept_run(user=user, session=make_session(user), run_id="one", prompt="x")
    create_approval(user, make_session(user))
    _, found = await scrape("t")
    assert value(found, "clawsite_runs", status="accepted") == 1
    assert value(found, "clawsite_runs", status="waiting") == 1
    assert value(found, "clawsite_runs", status="running") == 0
    assert value(found, "clawsite_lane_runs", lane="main", state="queued") == 1
    assert value(found, "clawsite_lane_max", lane="main") == 64
    assert value(found, "clawsite_workers") == 0
    assert value(found, "clawsite_approvals_pending") == 1
    assert value(found, "clawsite_commands_running") == 0


async def test_requests_are_counted_by_route_not_url(scrape, settings, user, make_session):
    settings.METRICS_TOKEN = "t"
    session = make_session(user)
    client, header = AsyncClient(), {"Authorization": f"Bearer {create_token(user)}"}
    before = (await scrape("t"))[1]
    for path in (f"/api/sessions/{session.pk}", "/api/sessions/secret-words", "/api/nothing-here"):
        await client.get(path, headers=header)
    await client.generic("SECRETVERB", "/healthz")
    after = (await scrape("t"))[1]

    def grown(method, code):
        key = ("clawsite_requests_total", frozenset({"interface": "http", "method": method, "code": code}.items()))
        return after.get(key, 0) - before.get(key, 0)

    assert grown("GET /api/sessions/<session_id>", "200") == 1
    assert grown("GET /api/sessions/<session_id>", "404") == 1
    told = " ".join(str(key) for key in after)
    assert "secret-words" not in told
    assert "SECRETVERB" not in told
    assert str(session.pk) not in told


async def test_metrics_include_only_live_processes_of_host(scrape, settings, tmp_path):
    settings.METRICS_TOKEN, settings.HOME = "t", tmp_path
    metrics.write_snapshot(tmp_path, "worker-1")
    folder = tmp_path / metrics.FOLDER
    (folder / "worker-2.prom").write_text('# TYPE clawsite_tool_calls counter\nclawsite_tool_calls_total{outcome="ok"} 41\n')
    (folder / "worker-3.prom").write_text("not { a metric")
    answer = await AsyncClient().get("/metrics", headers={"Authorization": "Bearer t"})
    text = answer.content.decode()
    assert 'clawsite_tool_calls_total{outcome="ok",process="worker-2"} 41.0' in text
    assert 'process="worker-1"' in text
    assert "worker-3" not in text
    assert text.count("# TYPE clawsite_tool_calls_total counter") == 1
    old = time.time() - metrics.STALE_SECONDS - 1
    os.utime(folder / "worker-2.prom", (old, old))
    assert "worker-2" not in (await AsyncClient().get("/metrics", headers={"Authorization": "Bearer t"})).content.decode()


def test_metrics_snapshot_is_written_and_removed(tmp_path):
    metrics.write_snapshot(tmp_path, "worker-1")
    path = tmp_path / metrics.FOLDER / "worker-1.prom"
    assert [family.name for family in text_string_to_metric_families(path.read_text())]
    assert path.parent.stat().st_mode & 0o077 == 0
    metrics.remove_snapshot(tmp_path, "worker-1")
    metrics.remove_snapshot(tmp_path, "worker-1")
    assert list(path.parent.iterdir()) == []
