"""Devices in the admin and on the account page: who can approve them, with which scopes, and who can revoke them."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from clawsite.accounts.models import User
from clawsite.gateway.devices import connecting, pairing
from clawsite.gateway.devices.connecting import DeviceCandidate
from clawsite.gateway.models import Device, DeviceToken, PairingRequest
from clawsite.infra.errors import Conflict
from clawsite.infra.models import AuditEntry
from tests.harness.page_source import compact_html

pytestmark = pytest.mark.usefixtures("database", "plain_static_files")

DEVICES, REQUESTS, INVOCATIONS = (f"/admin/gateway/{name}/" for name in ("device", "pairingrequest", "nodeinvocation"))


@pytest.fixture
def plain_static_files(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    yield
    LogEntry.objects.all().delete()


def browser_of(user: User) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


@pytest.fixture
def operator(make_user):
    someone = make_user("Operator", name="olga")
    someone.is_staff = True
    someone.save()
    return someone


def asking(account: User | None = None, role: str = "operator", name: str = "laptop", **facts: Any) -> PairingRequest:
    wanted = frozenset({"operator.read", "operator.admin"})
    return connecting.create_pairing_request(
        DeviceCandidate(name, "key", role, wanted, "203.0.113.9", {"displayName": name, **facts}), account, "not-paired"
    )


def act(user: User, address: str, action: str, *rows: Any) -> str:
    chosen = {"action": action, "_selected_action": [str(row.pk) for row in rows], "confirmed": "yes"}
    return browser_of(user).post(address, chosen, secure=True, follow=True).content.decode()


def test_operator_approves_and_rejects_devices(operator, user):
    claimed, unclaimed, unwanted = asking(user), asking(name="desk"), asking(name="stranger")
    assert "Approved: 2" in act(operator, REQUESTS, "approve", claimed, unclaimed)
    assert "Denied: 1" in act(operator, REQUESTS, "reject", unwanted)
    owners = dict(Device.objects.values_list("fingerprint", "owner__username"))
    assert owners == {"laptop": user.username, "desk": "olga"}
    scopes = dict(Device.objects.values_list("fingerprint", "scopes"))
    assert scopes == {"laptop": ["operator.read"], "desk": ["operator.admin"]}, "no more than its owner has"
    assert "There is nothing to do for the selected rows." in act(operator, REQUESTS, "approve", unwanted)
    mine = AuditEntry.objects.filter(subject_id__in=["laptop", "desk", "stranger"])
    said = mine.values_list("action", "actor_name").order_by("pk")
    assert list(said) == [("device.paired", "olga"), ("device.paired", "olga"), ("device.rejected", "olga")]


def test_operator_revokes_device(operator, user):
    device = Device.objects.create(owner=user, fingerprint="f", public_key="k", is_operator=True)
    token = DeviceToken.objects.create(device=device, role="operator", digest="d")
    assert "Revoked: 1" in act(operator, DEVICES, "revoke", device)
    device.refresh_from_db()
    token.refresh_from_db()
    assert device.revoked_at
    assert token.revoked_at


@pytest.mark.parametrize(
    ("address", "action", "service"),
    [(REQUESTS, "approve", "approve"), (REQUESTS, "reject", "reject"), (DEVICES, "revoke", "remove")],
)
def test_conflict_rolls_back_whole_bulk_action(operator, user, monkeypatch, address, action, service):
    requests = [asking(user, name="desk"), asking(name="laptop")]
    devices = [Device.objects.create(owner=user, fingerprint=name, public_key="k") for name in ("phone", "tablet")]
    recorded = AuditEntry.objects.filter(action__startswith="device.").count()
    done, real = [], getattr(pairing, service)

    def overtaken(row, **how):
        if done:
            raise Conflict("somebody was faster")
        done.append(real(row, **how))

    monkeypatch.setattr(pairing, service, overtaken)
    said = act(operator, address, action, *(requests if address == REQUESTS else devices))
    assert len(done) == 1
    assert "somebody was faster" in said
    assert set(PairingRequest.objects.values_list("status", flat=True)) == {"pending"}
    assert sorted(Device.objects.active().values_list("fingerprint", flat=True)) == ["phone", "tablet"]
    assert AuditEntry.objects.filter(action__startswith="device.").count() == recorded


@pytest.mark.parametrize("groups", [("Auditor",), ("User",)])
def test_view_only_user_cannot_decide_pairing_requests(make_user, user, groups):
    someone = make_user(*groups)
    someone.is_staff = True
    someone.save()
    request = asking(user)
    device = Device.objects.create(owner=user, fingerprint="f", public_key="k")
    act(someone, REQUESTS, "approve", request)
    act(someone, DEVICES, "revoke", device)
    request.refresh_from_db()
    assert request.status == "pending"
    assert Device.objects.get().revoked_at is None


def test_node_call_parameters_are_shown_only_to_auditors(operator, make_user, user):
    device = Device.objects.create(owner=user, fingerprint="f", public_key="k", is_node=True)
    later = timezone.now() + timedelta(minutes=1)
    asked = {"params_json": "a private wish", "request_hash": "x", "timeout_ms": 1, "expires_at": later}
    row = device.invocations.create(owner=user, command="lights.on", idempotency_key="k", **asked)
    auditor = make_user("Auditor")
    auditor.is_staff = True
    auditor.save()
    page = f"{INVOCATIONS}{row.pk}/change/"
    assert "a private wish" not in browser_of(operator).get(page, secure=True).content.decode()
    assert "a private wish" in browser_of(auditor).get(page, secure=True).content.decode()


# The account page


def test_own_devices_are_listed_and_revoked(user, make_user):
    mine = Device.objects.create(owner=user, fingerprint="a" * 64, public_key="k", display_name="my laptop", is_operator=True)
    theirs = Device.objects.create(owner=make_user(), fingerprint="b" * 64, public_key="k", display_name="not mine")
    browser = browser_of(user)
    said = browser.get("/account/").content.decode()
    assert "my laptop" in said
    assert "not mine" not in said
    assert browser.post(f"/account/devices/{theirs.pk}/revoke/").status_code == 404
    assert "was revoked" in browser.post(f"/account/devices/{mine.pk}/revoke/", follow=True).content.decode()
    mine.refresh_from_db()
    theirs.refresh_from_db()
    assert mine.revoked_at
    assert not theirs.revoked_at


def test_user_with_pairing_permission_approves_devices_on_page(user):
    user.user_permissions.add(Permission.objects.get(codename="pair_devices"))
    request = asking(role="node", name="kitchen", commands=["lights.on", "system.run", "doors.open"])
    browser = browser_of(user)
    said = compact_html(browser.get("/account/").content.decode())
    assert 'value="lights.on" checked' in said
    assert 'value="system.run">' in said
    path = f"/account/devices/requests/{request.pk}"
    browser.post(f"{path}/approve/", {"is_node": "1", "commands": ["lights.on", "system.run"]})
    device = Device.objects.get()
    assert (device.owner, device.allowed_commands) == (user, ["lights.on", "system.run"])
    late = browser.post(f"{path}/reject/", follow=True).content.decode()
    assert "This pairing request is closed" in late


def test_user_without_pairing_permission_cannot_see_or_decide(user, make_user):
    request = asking(name="kitchen")
    browser = browser_of(user)
    assert "kitchen" not in browser.get("/account/").content.decode()
    assert browser.post(f"/account/devices/requests/{request.pk}/approve/").status_code == 404
    pairer = make_user(name="pia")
    pairer.user_permissions.add(Permission.objects.get(codename="pair_devices"))
    claimed = asking(user, name="of-user")
    assert browser_of(pairer).post(f"/account/devices/requests/{claimed.pk}/approve/").status_code == 404
    assert not Device.objects.exists()


def test_stale_browser_session_may_reject_but_not_approve(user, settings):
    user.user_permissions.add(Permission.objects.get(codename="pair_devices"))
    request = asking(name="kitchen")
    browser = browser_of(user)
    settings.CONFIRM_MINUTES = -1
    path = f"/account/devices/requests/{request.pk}"
    assert browser.post(f"{path}/approve/").status_code == 403
    assert not Device.objects.exists()
    assert browser.post(f"{path}/reject/").status_code == 302
    request.refresh_from_db()
    assert request.status == "rejected"
