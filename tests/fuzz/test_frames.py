"""Whatever frames come, each gets its answer, the connection stays, nothing fails inside, and nobody is told what is others'.

CLAWSITE_FUZZ_FRAMES says how many connections are tried, each with up to eight frames.
"""

import asyncio
import json
import logging
import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from clawsite.accounts.groups import scopes_of
from clawsite.accounts.tokens import issue_token
from clawsite.gateway import registry
from tests.belongings import furnish, stopped
from tests.fuzz.chance import SEED
from tests.fuzz.frames import Sent, frames, read
from tests.in_process import PATIENCE, Desk, NoAnswer, gateway

COUNT = int(os.environ.get("CLAWSITE_FUZZ_FRAMES", "500"))
SECRET = "xanthophyll"
PROTOCOLS = (1, 3, 4)
AS_MANY = settings(max_examples=COUNT, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture
def world(person, caplog):
    """A caller with a token, and names of their own things and of somebody else's."""
    user, other = person(), person()
    theirs = furnish(other, SECRET)
    stopped(theirs, by=person("Operator"))
    own = furnish(user, "ordinary")
    names = [name for each in (own, theirs) for name in each.names.values() if SECRET not in str(name)]
    caplog.set_level(logging.WARNING)
    with asyncio.Runner() as runner:
        inside = gateway()
        runner.run(inside.__aenter__())
        yield runner, issue_token(user, "fuzz", sorted(scopes_of(user)))[1], names, caplog
        runner.run(inside.__aexit__(None, None, None))


async def talk(token: str, protocol: int, sent: list[Sent]) -> None:
    desk = await Desk.open(token, protocol=protocol)
    try:
        for each in sent:
            told = len(desk.seen)
            await desk.text(each.text)
            if not each.waits:
                await answered(desk, each, told)
            assert not desk.closed, f"{each} closed the connection: {desk.closed}"
            assert (await desk.request("health"))["ok"]
        leaked = [text for text in desk.texts if SECRET in text]
        assert not leaked, f"{SECRET} was told: {leaked}"
        failed = [text for text in desk.texts if "internal error" in text]
        assert not failed, failed
    finally:
        desk.leave()


async def answered(desk: Desk, sent: Sent, told: int) -> None:
    try:
        frame = await desk.find(lambda frame: frame.get("type") == "res" and frame.get("id") == sent.id, PATIENCE, told)
    except NoAnswer:
        raise AssertionError(f"{sent} was not answered; got {desk.seen[told:]}") from None
    if not sent.valid:
        assert frame["ok"] is False, f"{sent} was taken: {frame}"
        assert frame["error"]["code"] == "INVALID_REQUEST"


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]


@pytest.mark.timeout(3600)
def test_every_frame_is_answered_and_none_does_harm(world):
    runner, token, names, caplog = world

    @seed(SEED)
    @AS_MANY
    @given(st.sampled_from(PROTOCOLS), st.lists(frames(names), min_size=1, max_size=8))
    def play(protocol, sent):
        caplog.clear()
        runner.run(talk(token, protocol, sent))
        assert complaints(caplog) == []

    play()


@pytest.mark.timeout(3600)
def test_before_the_handshake_nothing_but_a_good_connect_is_let_in(world):
    runner, _token, names, caplog = world

    async def knock(sent: Sent) -> None:
        desk = Desk()
        await desk.knock()
        await desk.text(sent.text)
        await asyncio.wait_for(desk.ended.wait(), PATIENCE)
        assert not any(frame.get("ok") for frame in desk.seen)
        desk.leave()

    @seed(SEED)
    @AS_MANY
    @given(frames(names))
    def play(sent):
        caplog.clear()
        runner.run(knock(sent))
        assert complaints(caplog) == []

    play()


def test_a_method_that_fails_is_found(world, monkeypatch):
    """The deliberate fault: one that is ours."""
    runner, token, _names, _caplog = world

    async def broken(call, params):
        raise ZeroDivisionError

    monkeypatch.setitem(registry.methods(), "models.list", replace(registry.methods()["models.list"], handler=broken))
    with pytest.raises(AssertionError, match="internal error"):
        runner.run(talk(token, 4, [read('{"type":"req","id":"1","method":"models.list"}')]))


def test_an_answer_with_somebody_elses_words_is_found(world, monkeypatch):
    """The deliberate fault: a look-up that forgets whose it is."""
    from sessions_app.models import Session

    runner, token, _names, _caplog = world
    theirs = Session.objects.get(label__startswith=SECRET)
    monkeypatch.setattr(type(Session.objects.all()), "for_user", lambda self, user: self)
    frame = {"type": "req", "id": "1", "method": "chat.history", "params": {"sessionId": str(theirs.pk)}}
    with pytest.raises(AssertionError, match=SECRET):
        runner.run(talk(token, 4, [read(json.dumps(frame))]))
