"""Presence: who is online across all processes, sent at most once a second, with a version that only increases."""

import pytest

from clawsite.gateway.delivery.presence import EXPIRY_SECONDS, Presence, StateVersions
from clawsite.gateway.protocol.frames import Client
from tests.unit.gateway_fakes import Clock, connection


class Process:
    """One web process with its presence."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.published: list[dict] = []
        self.told: list[dict] = []
        self.versions = StateVersions()
        self.presence = Presence(
            name,
            {"host": name, "mode": "gateway"},
            self.versions,
            publish=self.published.append,
            tell=lambda outgoing: self.told.append(outgoing),
            later=clock.later,
            now=clock,
        )

    @property
    def online(self) -> list[str]:
        return [entry["id"] for entry in self.presence.entries() if "id" in entry]


def client(name: str, mode: str = "ui", **fields):
    made = connection()
    made.line.id = f"conn-{name}"
    made.client = Client(id=name, mode=mode, **fields)
    made.authority.scopes = frozenset({"operator.read", "operator.write"})
    made.authority.user.get_username = lambda: "somebody"
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_first_change_is_sent_immediately_and_later_ones_batched(clock):
    here = Process("a", clock)
    here.presence.add(client("one"))
    clock.pass_(0)
    assert len(here.told) == 1
    for name in ("two", "three", "four"):
        here.presence.add(client(name))
        clock.pass_(0.1)
    assert len(here.told) == 1
    clock.pass_(1)
    assert len(here.told) == 2
    assert here.told[1].classic["changes"][-1] == {"id": "four", "status": "online", "capabilities": ["sessions", "agent", "send"]}
    assert here.versions.presence == 3


def test_one_shot_clients_are_not_listed(clock):
    here = Process("a", clock)
    for mode in ("cli", "probe", "backend"):
        here.presence.add(client(mode, mode))
    clock.pass_(2)
    assert (here.online, here.told) == ([], [])


def test_two_sockets_of_same_instance_share_entry(clock):
    here = Process("a", clock)
    first, second = client("page", instance_id="i"), client("page", instance_id="i")
    second.line.id = "conn-other"
    here.presence.add(first)
    here.presence.add(second)
    assert here.online == ["page"]
    here.presence.handle_disconnect(first)
    assert here.online == ["page"]


def test_processes_exchange_presence_and_expire_silent_ones(clock):
    here, there = Process("a", clock), Process("b", clock)
    there.presence.add(client("far"))
    clock.pass_(0)
    here.presence.handle_message(there.published[-1])
    assert here.online == ["far"]
    assert here.published  # a process that was not known gets our entries
    clock.pass_(0)
    assert here.told[-1].classic["id"] == "far"
    clock.pass_(EXPIRY_SECONDS + 1)
    here.presence.tick()
    clock.pass_(1)
    assert here.online == []
    assert here.told[-1].classic["status"] == "offline"


def test_clients_of_ended_process_are_removed(clock):
    here, there = Process("a", clock), Process("b", clock)
    there.presence.add(client("far"))
    clock.pass_(0)
    here.presence.handle_message(there.published[-1])
    there.presence.leave()
    here.presence.handle_message(there.published[-1])
    assert here.online == []


def test_repeated_presence_message_is_not_rebroadcast(clock):
    here, there = Process("a", clock), Process("b", clock)
    there.presence.add(client("far"))
    clock.pass_(0)
    for _ in range(3):
        here.presence.handle_message(there.published[-1])
        clock.pass_(2)
    assert len(here.told) == 1
