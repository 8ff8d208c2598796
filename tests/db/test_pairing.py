"""Rows of devices: nothing that a device does at the door gives it back what was taken from it, and an approval gives what it shows."""

import threading
from typing import Any

import pytest
from django.db import connection

from clawsite.accounts.groups import scopes_of
from clawsite.accounts.models import User
from clawsite.gateway.devices import pairing, tokens
from clawsite.gateway.devices.pairing import Candidate
from clawsite.gateway.models import Device, DeviceToken, PairingRequest

pytestmark = pytest.mark.usefixtures("database")

READ, WRITE, ADMIN = "operator.read", "operator.write", "operator.admin"


@pytest.fixture
def olga(person) -> User:
    return person("Operator", "User", name="olga")


def candidate(*wanted: str, role: str = "operator", name: str = "phone", address: str = "203.0.113.9") -> Candidate:
    facts: dict[str, Any] = {"displayName": name, **({"commands": ["lights.on"]} if role == "node" else {})}
    return Candidate(name, "key", role, frozenset(wanted), address, facts)


def approved(who: Candidate, by: User, account: User | None = None, **how: Any) -> Device:
    request = pairing.ask(who, account, "not-paired")
    device = pairing.approve(str(request.pk), by=by, ceiling=scopes_of(by), **how).device
    assert device is not None
    return device


# Revoked stays revoked


def welcome(who: Candidate, olga: User) -> Any:
    return pairing.welcome(who, olga, scopes_of(olga))


def node_is_here(who: Candidate, olga: User) -> Any:
    return pairing.node_is_here(Device.objects.get(fingerprint=who.fingerprint).pk, who)


def collect(who: Candidate, olga: User) -> Any:
    return pairing.collect(who)


COMES = [(welcome, "operator"), (node_is_here, "node"), (collect, "operator")]


@pytest.mark.parametrize(("comes", "role"), COMES)
def test_a_device_that_comes_while_it_is_revoked_stays_revoked(olga, monkeypatch, comes, role):
    who = candidate(READ, role=role)
    device = approved(who, olga)
    revoked = threading.Event()

    def revoke() -> None:
        try:
            pairing.remove(device, by=olga)
            revoked.set()
        finally:
            connection.close()

    thread, take = threading.Thread(target=revoke), pairing._take_facts

    def take_and_dawdle(*args: Any) -> None:
        thread.start()
        revoked.wait(1)
        take(*args)

    monkeypatch.setattr(pairing, "_take_facts", take_and_dawdle)
    comes(who, olga)
    thread.join(20)
    assert revoked.is_set()
    assert Device.objects.get().revoked_at is not None
    assert not DeviceToken.objects.filter(revoked_at__isnull=True).exists()


@pytest.mark.parametrize(("comes", "role"), COMES)
def test_a_revoked_device_is_given_nothing(olga, comes, role):
    who = candidate(READ, ADMIN, role=role)
    pairing.remove(approved(who, olga), by=olga)
    before = Device.objects.values().get()
    assert comes(who, olga) is None
    assert Device.objects.values().get() == before
    assert not DeviceToken.objects.filter(revoked_at__isnull=True).exists()


def test_who_is_no_node_any_more_is_given_nothing_as_one(olga):
    who = candidate(role="node")
    device = approved(who, olga)
    Device.objects.update(is_operator=True)
    device.refresh_from_db()
    pairing.remove_node(device, by=olga)
    assert node_is_here(who, olga) is None
    assert not DeviceToken.objects.filter(revoked_at__isnull=True).exists()
