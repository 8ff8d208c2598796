"""Device rows: revoked access does not return when a device reconnects, and an approval grants what it shows."""

import threading
from typing import Any

import pytest
from django.db import connection

from clawsite.accounts.groups import scopes_of
from clawsite.accounts.models import User
from clawsite.gateway.devices import connecting, pairing, tokens
from clawsite.gateway.devices.connecting import DeviceCandidate
from clawsite.gateway.models import Device, DeviceToken, PairingRequest
from clawsite.infra.errors import NotFound, TooManyAttempts

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]

READ, WRITE, ADMIN = "operator.read", "operator.write", "operator.admin"


@pytest.fixture
def olga(make_user) -> User:
    return make_user("Operator", "User", name="olga")


def candidate(*wanted: str, role: str = "operator", name: str = "phone", address: str = "203.0.113.9") -> DeviceCandidate:
    facts: dict[str, Any] = {"displayName": name, **({"commands": ["lights.on"]} if role == "node" else {})}
    return DeviceCandidate(name, "key", role, frozenset(wanted), address, facts)


def approved(who: DeviceCandidate, by: User, account: User | None = None, **how: Any) -> Device:
    request = connecting.create_pairing_request(who, account, "not-paired")
    device = pairing.approve(str(request.pk), by=by, ceiling=scopes_of(by), **how).device
    assert device is not None
    return device


# Revoked stays revoked


def welcome(who: DeviceCandidate, olga: User) -> Any:
    return connecting.register_device(who, olga, scopes_of(olga))


def node_is_here(who: DeviceCandidate, olga: User) -> Any:
    return connecting.record_node_connected(Device.objects.get(fingerprint=who.fingerprint).pk, who)


def collect(who: DeviceCandidate, olga: User) -> Any:
    return connecting.collect_token(who)


COMES = [(welcome, "operator"), (node_is_here, "node"), (collect, "operator")]


@pytest.mark.parametrize(("comes", "role"), COMES)
def test_device_connecting_during_revocation_stays_revoked(olga, monkeypatch, comes, role):
    who = candidate(READ, role=role)
    device = approved(who, olga)
    revoked = threading.Event()

    def revoke() -> None:
        try:
            pairing.remove(device, by=olga)
            revoked.set()
        finally:
            connection.close()

    thread, take = threading.Thread(target=revoke), connecting.apply_facts

    def take_and_dawdle(*args: Any) -> None:
        thread.start()
        revoked.wait(1)
        take(*args)

    monkeypatch.setattr(connecting, "apply_facts", take_and_dawdle)
    comes(who, olga)
    thread.join(20)
    assert revoked.is_set()
    assert Device.objects.get().revoked_at is not None
    assert not DeviceToken.objects.filter(revoked_at__isnull=True).exists()


@pytest.mark.parametrize(("comes", "role"), COMES)
def test_revoked_device_gets_no_token(olga, comes, role):
    who = candidate(READ, ADMIN, role=role)
    pairing.remove(approved(who, olga), by=olga)
    before = Device.objects.values().get()
    assert comes(who, olga) is None
    assert Device.objects.values().get() == before
    assert not DeviceToken.objects.filter(revoked_at__isnull=True).exists()


def test_removed_node_gets_no_node_token(olga):
    who = candidate(role="node")
    device = approved(who, olga)
    Device.objects.update(is_operator=True)
    device.refresh_from_db()
    pairing.remove_node(device, by=olga)
    assert node_is_here(who, olga) is None
    assert not DeviceToken.objects.filter(revoked_at__isnull=True).exists()


# What an approval gives


def living_token() -> DeviceToken:
    return DeviceToken.objects.get(revoked_at__isnull=True)


def test_revoked_scopes_do_not_return_with_narrower_request(olga):
    device = approved(candidate(READ, ADMIN), olga)
    assert living_token().scopes == [ADMIN, READ]
    tokens.revoke_token(device, "operator", by=olga)
    assert Device.objects.get().scopes == []
    device = approved(candidate(READ), olga)
    assert living_token().scopes == device.scopes == [READ]


def test_revoked_scopes_do_not_return_with_narrower_credential(olga):
    tokens.revoke_token(approved(candidate(READ, ADMIN), olga), "operator", by=olga)
    device, _secret = connecting.register_device(candidate(READ), olga, frozenset({READ}))
    assert living_token().scopes == device.scopes == [READ]


def test_rotating_token_to_fewer_scopes_narrows_device(olga):
    tokens.rotate_token(approved(candidate(READ, WRITE, ADMIN), olga), "operator", frozenset({READ}), by=olga)
    device = approved(candidate(WRITE), olga)
    assert living_token().scopes == device.scopes == [READ, WRITE]


def test_scopes_from_revoked_access_token_do_not_return(olga):
    from clawsite.accounts.tokens import issue_token

    access = issue_token(olga, "laptop", scopes=[READ, ADMIN])[0]
    approved(candidate(READ, ADMIN), olga, access_token=access.pk)
    type(access).objects.update(revoked_at="2026-01-01T00:00:00Z")
    device = approved(candidate(READ), olga)
    assert living_token().scopes == device.scopes == [READ]


def test_device_keeps_scopes_when_granted_more(olga):
    approved(candidate(READ, WRITE), olga)
    device = approved(candidate(ADMIN), olga)
    assert living_token().scopes == device.scopes == [ADMIN, READ, WRITE]


def test_device_approved_by_another_user_is_not_found(olga, make_user):
    from django.contrib.auth.models import Permission

    pia = make_user(name="pia")
    pia.user_permissions.add(Permission.objects.get(codename="pair_devices"))
    request = connecting.create_pairing_request(candidate(READ), None, "not-paired")
    pairing.approve(str(request.pk), by=olga, ceiling=scopes_of(olga))
    with pytest.raises(NotFound):
        pairing.approve(str(request.pk), by=pia, ceiling=scopes_of(pia))
    assert pairing.approve(str(request.pk), by=olga, ceiling=scopes_of(olga)).device is not None, "the same again is fine"


def test_anonymous_pairing_requests_do_not_block_signed_in_users(user, monkeypatch):
    monkeypatch.setattr(connecting, "MAX_PENDING", 2)
    for number in range(2):
        connecting.create_pairing_request(
            candidate(READ, name=f"stranger-{number}", address=f"203.0.113.{number}"), None, "not-paired"
        )
    with pytest.raises(TooManyAttempts):
        connecting.create_pairing_request(candidate(READ, name="stranger", address="203.0.113.7"), None, "not-paired")
    connecting.create_pairing_request(candidate(role="node", name="kitchen"), user, "not-paired")
    assert PairingRequest.objects.pending().filter(account=user).count() == 1
