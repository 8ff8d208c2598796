"""Headers of every response, and health probes."""

from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from clawsite.accounts.models import User
from clawsite.infra import sql
from clawsite.web import health
from sessions_app.models import Worker

pytestmark = pytest.mark.usefixtures("database")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/sign-in/",
        "/first-admin/",
        "/admin/",
        "/healthz",
        "/readyz",
        "/nowhere/",
        "/static/favicon.svg",
        "/static/js/shared/gateway.js",
    ],
)
@pytest.mark.parametrize("signed_in", [False, True])
def test_every_response_has_strict_csp(client: Client, path: str, signed_in: bool) -> None:
    if signed_in:
        client.force_login(User.objects.create_user("ada", is_staff=True))
    headers = client.get(path).headers
    policy = {part.split(" ", 1)[0]: part.split(" ", 1)[1] for part in headers["Content-Security-Policy"].split("; ")}
    assert policy == {
        "default-src": "'self'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self' ws://testserver",
        "object-src": "'none'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
        "form-action": "'self'",
    }
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "microphone=()" in headers["Permissions-Policy"]


def test_static_files_support_range_and_conditional_requests(client: Client) -> None:
    path = "/static/js/shared/gateway.js"
    whole = client.get(path)
    assert whole["Content-Type"].startswith("text/javascript")
    assert len(whole.content) == int(whole["Content-Length"])
    part = client.get(path, headers={"range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, whole.content[10:20])
    unchanged = client.get(path, headers={"if-none-match": whole["ETag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    head = client.head(path)
    assert (head["Content-Length"], head.content) == (whole["Content-Length"], b"")


def test_csp_allows_secure_websocket_behind_tls(client: Client) -> None:
    assert "connect-src 'self' wss://testserver" in client.get("/sign-in/", secure=True)["Content-Security-Policy"]


def test_unknown_host_is_rejected_and_not_echoed(client: Client) -> None:
    response = client.get("/sign-in/", headers={"host": "evil.example"})
    assert response.status_code == 400
    assert "evil.example" not in response["Content-Security-Policy"]


def test_liveness_check_uses_no_database_queries(client: Client, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        response = client.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"ok": True, "status": "live"})
    assert response["Cache-Control"] == "no-store"
    assert response.cookies == {}


def worker(seconds_ago: float, **fields: Any) -> None:
    (now,) = sql.fetch_row(f"SELECT {sql.now_expression()}")
    Worker.objects.create(id="w1", pid=1, started_at="2026-01-01T00:00Z", heartbeat_at=now - seconds_ago, **fields)


def test_readiness_requires_worker_within_three_heartbeats(client: Client, settings: Any) -> None:
    worker(2.5 * settings.HEARTBEAT_SECONDS)
    response = client.get("/readyz")
    assert (response.status_code, response.json()) == (200, {"ok": True, "status": "ready"})
    assert response["Cache-Control"] == "no-store"


@pytest.mark.parametrize("fields", [{"seconds_ago": 60}, {"seconds_ago": 0, "draining": True}, None])
def test_missing_worker_fails_readiness_with_reason(client: Client, fields: dict[str, Any] | None) -> None:
    if fields:
        worker(**fields)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert "worker" in response.json()["missing"][0]


def test_unreachable_database_is_reported_without_its_address(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable() -> bool:
        raise DatabaseError("connection to secret-host:5432 refused for user hunter2")

    monkeypatch.setattr(health, "_is_migrated", unreachable)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["missing"] == ["The database can’t be reached."]


def test_unmigrated_database_is_not_ready(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_seen_migrated", False)
    monkeypatch.setattr(health.MigrationExecutor, "migration_plan", lambda self, targets: [("one", False)])
    response = client.get("/readyz")
    assert response.status_code == 503
    assert "migrate" in response.json()["missing"][0]
