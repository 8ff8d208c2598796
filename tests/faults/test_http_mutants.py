"""Deliberate faults at the HTTP entry points: each breaks exactly its rule, and without it none is broken."""

import asyncio
import datetime as dt

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from clawsite import asgi
from clawsite.connectors.webhook import delivery_log, inbound
from clawsite.connectors.webhook.models import HookDelivery, SpentSignature
from clawsite.infra import bounded_json, clock, request_body
from clawsite.infra.errors import InvalidRequest, NotFound
from sessions_app.models import Run
from tests.harness.gateway import serve_gateway
from tests.harness.webhooks import create_webhook, deliver

pytestmark = pytest.mark.usefixtures("database", "plain_static_files")

BODY = 100_000


async def unauthenticated_client_sends_body(make_user, monkeypatch) -> set[str]:
    """No part of the body is read from the server."""
    taken = []
    receive = RequestResponseCycle.receive

    async def counted(self):
        message = await receive(self)
        taken.append(len(message.get("body", b"")))
        return message

    monkeypatch.setattr(RequestResponseCycle, "receive", counted)
    monkeypatch.setattr(request_body, "LINGER_BYTES", 0)
    async with serve_gateway(http="httptools") as address:
        reader, writer = await asyncio.open_connection(*address.split(":"))
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % BODY + b"[" * BODY)
        assert b" 401 " in await asyncio.wait_for(reader.readline(), 20)
        writer.close()
    return {"strangers' bodies stay outside"} if sum(taken) else set()


def reads_body_before_authenticating(monkeypatch) -> None:
    monkeypatch.setattr(asgi, "DEFERRED_PATHS", ("/nowhere/",))


async def client_sends_too_many_values(make_user, monkeypatch) -> set[str]:
    """The values are never created."""
    try:
        bounded_json.read_json(b"[" + b"[]," * 5000 + b"[]]", 5000)
    except InvalidRequest:
        return set()
    return {"values are counted before they are made"}


def does_not_count_lists(monkeypatch) -> None:
    monkeypatch.setattr(bounded_json, "_NOT_VALUE_STARTS", bounded_json._NOT_VALUE_STARTS + b"[,")


async def clients_guess_webhooks(make_user, monkeypatch) -> set[str]:
    """The response is the same for an existing webhook and one that doesn't exist."""
    create_webhook(make_user("Operator"))
    told = set()
    async with serve_gateway() as address:
        for path in (b"news", b"other"):
            reader, writer = await asyncio.open_connection(*address.split(":"))
            writer.write(b"POST /hooks/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}" % path)
            answer = await asyncio.wait_for(reader.read(), 20)
            told.add(b"".join(line for line in answer.splitlines() if not line.lower().startswith(b"date:")))
            writer.close()
    HookDelivery.objects.all().delete()
    inbound.Hook.objects.all().delete()
    return {"webhooks cannot be guessed"} if len(told) > 1 else set()


def reveals_missing_webhooks(monkeypatch) -> None:
    proven = inbound.authenticate_delivery

    def outspoken(hook, came):
        if hook.pk is None:
            raise NotFound("there is no such webhook")
        return proven(hook, came)

    monkeypatch.setattr(inbound, "authenticate_delivery", outspoken)


async def signature_is_replayed_after_a_month(make_user, monkeypatch) -> set[str]:
    """The replay starts nothing."""
    signed = create_webhook(make_user("Operator"), token=False, signature="plain")
    came = signed.delivery({"a": 1})
    deliver(came)
    HookDelivery.objects.update(received_at=clock.now() - dt.timedelta(days=31))
    delivery_log.delete_old_deliveries()
    deliver(came)
    started = Run.objects.count()
    for rows in (HookDelivery, SpentSignature, Run, inbound.Hook):
        rows.objects.all().delete()
    return {"a signature acts once"} if started > 1 else set()


def remembers_only_logged_signatures(monkeypatch) -> None:
    monkeypatch.setattr(inbound, "_find_spent_signature", lambda *_: None)
    monkeypatch.setattr(SpentSignature.objects, "create", lambda **_: None)


MUTANTS = [
    ("strangers' bodies stay outside", unauthenticated_client_sends_body, reads_body_before_authenticating),
    ("values are counted before they are made", client_sends_too_many_values, does_not_count_lists),
    ("webhooks cannot be guessed", clients_guess_webhooks, reveals_missing_webhooks),
    ("a signature acts once", signature_is_replayed_after_a_month, remembers_only_logged_signatures),
]


@pytest.mark.parametrize(("rule", "scenario", "mutate"), MUTANTS, ids=[mutate.__name__ for _, _, mutate in MUTANTS])
async def test_http_mutation_violates_only_its_rule(rule, scenario, mutate, make_user, monkeypatch):
    with monkeypatch.context() as sound:
        assert await scenario(make_user, sound) == set()
    with monkeypatch.context() as faulty:
        mutate(faulty)
        assert await scenario(make_user, faulty) == {rule}
