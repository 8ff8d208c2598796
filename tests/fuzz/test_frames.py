"""Every frame gets its response, the connection stays open, nothing fails internally, and nothing about other users is revealed.

Frames come from a plain user, a user with all permissions, and a node. CLAWSITE_FUZZ_FRAMES sets the number of connections, each
with up to eight frames; some more connections start with each of the methods.
"""

import asyncio
import json
import logging
import os
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from clawsite.accounts.groups import scopes_of
from clawsite.accounts.tokens import issue_token
from clawsite.gateway.server import registry
from clawsite.gateway.server.registry import Nothing
from tests.fuzz.chance import SEED
from tests.fuzz.frames import CALLED, Sent, aimed, frames, read
from tests.harness.devices import FakeDevice, connect_node
from tests.harness.owned_objects import create_owned_objects, freeze_open_run
from tests.harness.protocol import InProcessClient, NoResponse, running_gateway

COUNT = int(os.environ.get("CLAWSITE_FUZZ_FRAMES", "200"))
SECRET = "xanthophyll"
PROTOCOLS = (1, 3, 4)
AS_MANY = settings(max_examples=COUNT, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Caller:
    token: str
    device: FakeDevice | None = None  # of a node
    sees_everything: bool = False

    @property
    def role(self) -> str:
        return "node" if self.device else "operator"

    async def open(self, protocol: int) -> InProcessClient:
        if self.device:
            return await connect_node(self.device, self.token, protocol=protocol, commands=["lights.on"])
        return await InProcessClient.open(self.token, protocol=protocol)

    async def is_still_served(self, client: InProcessClient) -> bool:
        answer = await (client.request("node.event", {"event": "still.here"}) if self.device else client.request("health"))
        return bool(answer["ok"])


@pytest.fixture
def world(make_user, caplog):
    """Callers, and IDs of their own and another user's objects."""
    user, official, other = make_user(), make_user("User", "Operator", "Approver", "Auditor"), make_user()
    theirs = create_owned_objects(other, SECRET)
    freeze_open_run(theirs, by=make_user("Operator"))
    device = FakeDevice()
    of_people = [create_owned_objects(official, "official"), create_owned_objects(user, "ordinary"), theirs]
    names = {kind: [name for each in of_people if SECRET not in str(name := each.named(kind))] for kind in theirs.names}
    names["device id"].append(device.id)
    tokens = {each: issue_token(each, "fuzz", sorted(scopes_of(each)))[1] for each in (user, official)}
    callers = {
        "user": Caller(tokens[user]),
        "official": Caller(tokens[official], sees_everything=True),
        "node": Caller(tokens[official], device),
    }
    caplog.set_level(logging.WARNING)
    with asyncio.Runner() as runner:
        inside = running_gateway()
        runner.run(inside.__aenter__())
        yield runner, callers, names, caplog
        runner.run(inside.__aexit__(None, None, None))


async def talk(caller: Caller, protocol: int, sent: list[Sent]) -> None:
    client = await caller.open(protocol)
    try:
        for each in sent:
            told = len(client.seen)
            await client.send(each.text)
            if not each.waits:
                await answered(client, each, told)
            assert not client.close_info, f"{each} closed the connection: {client.close_info}"
            assert await caller.is_still_served(client)
        leaked = [text for text in client.texts if SECRET in text and not caller.sees_everything]
        assert not leaked, f"{SECRET} was told: {leaked}"
        failed = [text for text in client.texts if "internal error" in text]
        assert not failed, failed
    finally:
        client.disconnect()


async def answered(client: InProcessClient, sent: Sent, told: int) -> None:
    try:
        frame = await client.find(lambda frame: frame.get("type") == "res" and frame.get("id") == sent.id, told)
    except NoResponse:
        raise AssertionError(f"{sent} was not answered; got {client.seen[told:]}") from None
    if not sent.valid:
        assert frame["ok"] is False, f"{sent} was taken: {frame}"
        assert frame["error"]["code"] == "INVALID_REQUEST"


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]


@pytest.mark.timeout(3600)
def test_every_frame_gets_a_harmless_response(world):
    runner, callers, names, caplog = world
    of_role = {role: st.lists(frames(names, role), min_size=1, max_size=8) for role in ("operator", "node")}
    who = st.sampled_from(["user", "official", "user", "official", "node"])  # nodes have few methods
    talks = who.flatmap(lambda name: st.tuples(st.just(name), of_role[callers[name].role]))

    @seed(SEED)
    @AS_MANY
    @given(st.sampled_from(PROTOCOLS), talks)
    def play(protocol, drawn):
        name, sent = drawn
        caplog.clear()
        runner.run(talk(callers[name], protocol, sent))
        assert complaints(caplog) == []

    play()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("who", ["official", "node"])
def test_every_method_of_a_role_is_reached_harmlessly(world, monkeypatch, who):
    """Random choice alone would need thousands of connections to cover all methods."""
    runner, callers, names, caplog = world
    role, reached = callers[who].role, set()

    def noted(method):
        async def handler(call, params):
            reached.add(method.name)
            return await method.handler(call, params)

        return replace(method, handler=handler)

    for name in CALLED[role]:
        monkeypatch.setitem(registry.list_methods(), name, noted(registry.list_methods()[name]))

        @seed(SEED)
        @settings(AS_MANY, max_examples=max(3, COUNT // 400))
        @given(aimed(name, names), st.lists(frames(names, role), max_size=2))
        def play(first, others):
            caplog.clear()
            runner.run(talk(callers[who], 4, [first, *others]))
            assert complaints(caplog) == []

        play()
    assert reached == {*CALLED[role]}


@pytest.mark.timeout(3600)
def test_only_valid_connect_is_accepted_before_handshake(world):
    runner, _callers, names, caplog = world

    async def knock(sent: Sent) -> None:
        client = InProcessClient()
        await client.start()
        await client.send(sent.text)
        await client.closed()
        assert not any(frame.get("ok") for frame in client.seen)
        client.disconnect()

    @seed(SEED)
    @AS_MANY
    @given(frames(names))
    def play(sent):
        caplog.clear()
        runner.run(knock(sent))
        assert complaints(caplog) == []

    play()


@pytest.mark.parametrize(
    ("who", "method"), [("user", "models.list"), ("official", "exec.approvals.get"), ("node", "node.invoke.result")]
)
def test_fuzz_detects_failing_method(world, monkeypatch, who, method):
    """Deliberate fault: a bug in one method of each caller."""
    runner, callers, _names, _caplog = world

    async def broken(call, params):
        raise ZeroDivisionError

    monkeypatch.setitem(registry.list_methods(), method, replace(registry.list_methods()[method], params=Nothing, handler=broken))
    with pytest.raises(AssertionError, match="internal error"):
        runner.run(talk(callers[who], 4, [read(json.dumps({"type": "req", "id": "1", "method": method}))]))


def test_fuzz_detects_response_with_foreign_data(world, monkeypatch):
    """Deliberate fault: a lookup that ignores the owner."""
    from sessions_app.models import Session

    runner, callers, _names, _caplog = world
    theirs = Session.objects.get(label__startswith=SECRET)
    monkeypatch.setattr(type(Session.objects.all()), "for_user", lambda self, user: self)
    frame = {"type": "req", "id": "1", "method": "chat.history", "params": {"sessionId": str(theirs.pk)}}
    with pytest.raises(AssertionError, match=SECRET):
        runner.run(talk(callers["user"], 4, [read(json.dumps(frame))]))
