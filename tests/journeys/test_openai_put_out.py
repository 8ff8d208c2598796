"""Long HTTP responses whose caller loses access. Over real sockets."""

import asyncio
from typing import Any

import httpx
import pytest
from django.db import transaction

from clawsite.accounts.models import AccessToken, User
from clawsite.accounts.tokens import issue_token, revoke_token
from clawsite.gateway.protocol import limits
from clawsite.infra import clock
from sessions_app.events import announce
from sessions_app.models import Run, SessionMember
from sessions_app.sessions.members import share
from tests.harness.commands import require_approval
from tests.harness.gateway import serve_gateway
from tests.harness.worker import WorkerHarness
from tools_app.models import Approval

HANGS = "[[tokens=9 hang_after=2]]"


@pytest.fixture
async def server(harness: WorkerHarness):
    """The gateway in this process, together with the worker."""
    async with serve_gateway() as address:
        yield address


class Asked:
    """A program with its own token and a request in progress."""

    def __init__(self, server: str, user: User, path: str, body: dict[str, Any], **headers: str) -> None:
        self.user = user
        self.token, secret = issue_token(user, "test", ["operator.read", "operator.write"])
        client = httpx.AsyncClient(base_url=f"http://{server}", headers={"Authorization": f"Bearer {secret}"}, timeout=60)
        self.told = b""
        self.status = 0
        self._task = asyncio.create_task(self._ask(client, path, body, headers))

    async def _ask(self, client: httpx.AsyncClient, path: str, body: dict[str, Any], headers: dict[str, str]) -> None:
        async with client, client.stream("POST", path, json=body, headers=headers) as answer:
            self.status = answer.status_code
            async for some in answer.aiter_bytes():
                self.told += some

    async def ended(self) -> str:
        async with asyncio.timeout(20):
            await self._task
        return self.told.decode()


def chat(server: str, user: User, *, stream: bool = True, **headers: str) -> Asked:
    body = {"model": "clawsite", "messages": [{"role": "user", "content": HANGS}], "stream": stream}
    return Asked(server, user, "/v1/chat/completions", body, **headers)


def revoked(asked: Asked) -> None:
    revoke_token(asked.token)


def switched_off(asked: Asked) -> None:
    asked.user.is_active = False
    asked.user.save()


def unheard(asked: Asked) -> None:
    AccessToken.objects.filter(pk=asked.token.pk).update(revoked_at=clock.now())


@pytest.mark.parametrize("end", [revoked, switched_off, unheard])
async def test_revoked_credential_ends_stream_and_run(harness: WorkerHarness, server, eventually, monkeypatch, end):
    if end is unheard:  # the bus message was lost, so the next check counts
        monkeypatch.setattr(limits, "RECHECK_SECONDS", 0.2)
    asked = chat(server, harness.user)
    await eventually(lambda: b"w0 " in asked.told)
    end(asked)
    told = await asked.ended()
    assert "are no longer valid" in told
    assert '"code":"invalid_api_key"' in told
    run = await harness.ended(Run.objects.get(owner=harness.user).pk)
    assert (run.status, run.reason) == ("aborted", "credential-ended")


async def test_revoked_credential_ends_responses_and_unstreamed_requests(harness: WorkerHarness, server, eventually):
    whole = chat(server, harness.user, stream=False)
    await eventually(lambda: Run.objects.filter(status="running").exists())
    revoked(whole)
    assert (whole.status, "are no longer valid" in await whole.ended(), whole.status) == (0, True, 401)
    response = Asked(server, harness.user, "/v1/responses", {"model": "clawsite", "input": HANGS, "stream": True})
    await eventually(lambda: b"w0 " in response.told)
    revoked(response)
    assert "event: error" in (told := await response.ended())
    assert "response.completed" not in told


async def test_resumable_run_continues_after_revocation(harness: WorkerHarness, server, eventually):
    asked = chat(server, harness.user, **{"Idempotency-Key": "mine"})
    await eventually(lambda: b"w0 " in asked.told)
    revoked(asked)
    assert "are no longer valid" in await asked.ended()
    assert Run.objects.get(run_id="mine").status == "running"


async def test_unrelated_credential_changes_do_not_end_stream(harness: WorkerHarness, server, eventually, make_user):
    asked = chat(server, harness.user)
    await eventually(lambda: b"w0 " in asked.told)
    other = issue_token(harness.user, "other", ["operator.read"])[0]
    revoke_token(other)
    share(harness.user, Run.objects.get(owner=harness.user).session, make_user().username, "viewer")
    await asyncio.sleep(0.5)
    assert "error" not in asked.told.decode()
    revoked(asked)
    await asked.ended()


async def test_guest_stream_ends_when_share_is_revoked(harness: WorkerHarness, server, eventually, make_user):
    guest = make_user()
    share(harness.user, harness.session, guest.username, "writer")
    asked = chat(server, guest, **{"X-Clawsite-Session-Key": f"session:{harness.session.pk}"})
    await eventually(lambda: b"w0 " in asked.told)
    SessionMember.objects.filter(user=guest).delete()  # not `share`, which also stops the run: either may come first
    with transaction.atomic():
        announce.notify_session_changed(harness.session, "members")
    assert "is no longer shared with you" in await asked.ended()


async def test_revoked_credential_gets_no_direct_tool_result(harness: WorkerHarness, server, eventually):
    require_approval()
    body = {"tool": "exec", "args": {"command": "./nobody-knows-it"}, "sessionKey": harness.session.key}
    asked = Asked(server, harness.user, "/tools/invoke", body)
    await eventually(lambda: Approval.objects.filter(requester=harness.user).exists())
    revoked(asked)
    assert (await asked.ended(), asked.status)[1] == 401
    assert Run.objects.get(owner=harness.user).status == "waiting"
