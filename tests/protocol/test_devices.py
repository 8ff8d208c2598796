"""Devices at the handshake and over the socket: paired by their account, their own token, or a person; and revoked again."""

import datetime as dt

import pytest

from clawsite.accounts.models import AccessToken, FailedSignIns
from clawsite.gateway.devices import connecting
from clawsite.gateway.models import Device, DeviceToken, PairingRequest
from clawsite.infra import db
from clawsite.infra.models import AuditEntry
from sessions_app.models import Session
from tests.harness.devices import FakeDevice
from tests.protocol.conftest import ORIGIN

CHAT = ["operator.read", "operator.write"]
LONG_AGO = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def people(make_user):
    return {
        "ada": make_user("User", name="ada"),
        "olga": make_user("Operator", "User", name="olga"),
        "pia": make_user("User", name="pia"),  # may pair devices, but manage only her own
    }


@pytest.fixture
async def may_pair(people):
    from django.contrib.auth.models import Permission

    await db.write(lambda: people["pia"].user_permissions.add(Permission.objects.get(codename="pair_devices")))


@pytest.fixture
def tokens(people, make_token, may_pair):
    return {name: make_token(type(user).objects.get(pk=user.pk)) for name, user in people.items()}


@pytest.fixture
def device():
    return FakeDevice()


async def requested(device, sockets, **connect):
    """Return the ID of the pairing request that a device created at the handshake."""
    error = await device.connect_error(sockets, **connect)
    assert (error["code"], error["message"]) == ("NOT_PAIRED", "pairing required"), error
    assert error["details"]["code"] == "PAIRING_REQUIRED"
    return error["details"]["requestId"]


async def code_of(socket, method, params):
    answer = await socket.request(method, params)
    assert not answer["ok"], answer
    return answer["error"]["code"]


# With an account's credential


async def test_openclaw_terminal_connects_and_gets_a_device_token(device, sockets, tokens):
    asked = ["operator.admin", "operator.read", "operator.write"]
    first = await device.connect(sockets, auth={"token": tokens["ada"]}, scopes=asked)
    assert first.hello["auth"]["scopes"] == CHAT, "no more than the account has"
    assert first.hello["auth"]["deviceToken"].startswith("claw_dev_")
    again = await device.connect(sockets, auth={"token": tokens["ada"]}, scopes=asked)
    assert "deviceToken" not in again.hello["auth"], "it has one"
    for auth in ({"token": device.token}, {"deviceToken": device.token}):
        own = await device.connect(sockets, auth=auth, scopes=asked)
        assert own.hello["auth"]["scopes"] == CHAT, "asking again for what was answered with less is no new wish"
        assert await own.call("chat.send", {"sessionKey": "main", "message": "hi", "idempotencyKey": f"k{list(auth)}"})
    assert not await db.read(PairingRequest.objects.exists)


@pytest.mark.parametrize(("protocol", "form"), [(4, "v2"), (3, "v3"), (3, "v2"), (3, "v1"), (1, "v1")])
async def test_every_signature_format_is_accepted(device, sockets, tokens, protocol, form):
    socket = await device.connect(sockets, form=form, protocol=protocol, auth={"token": tokens["ada"]})
    assert socket.hello["protocol"] == protocol
    assert device.token


async def test_signature_without_nonce_is_rejected_behind_a_proxy(device, sockets, tokens):
    error = await device.connect_error(
        sockets, form="v1", protocol=3, auth={"token": tokens["ada"]}, headers={"X-Forwarded-For": "203.0.113.9"}
    )
    assert error["details"]["code"] == "DEVICE_AUTH_NONCE_REQUIRED"


async def test_signature_for_another_connection_is_rejected(device, sockets, tokens):
    _, answer = await device.try_connect(sockets, auth={"token": tokens["ada"]}, proof={"nonce": "of-yesterday"})
    assert (answer["error"]["message"], answer["error"]["details"]["code"]) == (
        "device nonce mismatch",
        "DEVICE_AUTH_NONCE_MISMATCH",
    )
    assert not await db.read(Device.objects.exists)


async def test_signature_for_other_scopes_is_rejected(device, sockets, tokens):
    socket = await sockets.open()
    params = device.params(await socket.event("connect.challenge"), auth={"token": tokens["olga"]}, scopes=["operator.read"])
    answer = await socket.request("connect", {**params, "scopes": ["operator.admin"]})
    assert answer["error"]["details"]["code"] == "DEVICE_AUTH_SIGNATURE_INVALID"


async def test_wrong_token_is_reported_before_device_errors(device, sockets):
    error = await device.connect_error(sockets, auth={"token": "claw_00000000_wrong"}, proof={"nonce": "wrong"})
    assert error["details"]["code"] == "AUTH_TOKEN_MISMATCH"


async def test_device_can_be_paired_with_several_accounts(device, sockets, tokens):
    await device.connect(sockets, auth={"token": tokens["olga"]})
    of_olga = device.token
    await device.connect(sockets, auth={"token": tokens["ada"]})
    assert of_olga != device.token
    for token in (of_olga, device.token):
        assert await device.connect(sockets, auth={"token": token})
    assert await db.read(Device.objects.count) == 2


async def test_gateway_token_connects_device_without_pairing_it(device, sockets):
    await device.connect(sockets, auth={"token": "test-gateway-token"})
    assert (device.token, await db.read(Device.objects.count)) == ("", 0)


async def test_approval_ends_with_access_token_and_limited_cannot_approve(device, sockets, tokens):
    request = await requested(device, sockets)
    pia = await FakeDevice().connect(sockets, auth={"token": tokens["pia"]})
    await db.write(lambda: AccessToken.objects.filter(user__username="pia").update(tools={"deny": ["exec"]}))
    limited = await FakeDevice().connect(sockets, auth={"token": tokens["pia"]})
    assert await code_of(limited, "device.pair.approve", {"requestId": request}) == "FORBIDDEN"
    await db.write(lambda: AccessToken.objects.filter(user__username="pia").update(tools={}))
    assert (await pia.request("device.pair.approve", {"requestId": request}))["ok"]
    made = await db.read(lambda: DeviceToken.objects.select_related("made_with").get(device__fingerprint=device.id))
    assert made.made_with.user.username == "pia"


async def test_same_origin_page_with_device_connects_by_cookie(device, sockets, people, make_cookie):
    cookie = await db.read(make_cookie, people["ada"])
    await device.connect(sockets, headers={"Origin": ORIGIN, "Cookie": cookie})
    assert device.token
    stranger = FakeDevice()
    await requested(stranger, sockets, headers={"Cookie": cookie})  # without an Origin the cookie is ignored


async def test_stale_browser_session_gets_no_token_and_cannot_approve(device, sockets, people, may_pair, make_cookie, settings):
    cookie = await db.write(make_cookie, type(people["pia"]).objects.get(pk=people["pia"].pk))
    request = await requested(FakeDevice(), sockets)
    settings.CONFIRM_MINUTES = -1
    socket = await device.connect(sockets, headers={"Origin": ORIGIN, "Cookie": cookie})
    assert "deviceToken" not in socket.hello["auth"]
    answer = await socket.request("device.pair.approve", {"requestId": request})
    assert (answer["error"]["code"], answer["error"]["details"]["code"]) == ("FORBIDDEN", "CONFIRMATION_REQUIRED")
    assert await socket.call("device.pair.reject", {"requestId": request}), "refusing is never asked about"
    assert not await db.read(Device.objects.exists)


async def test_stale_device_token_is_replaced_given_valid_access_token(device, sockets, tokens):
    await device.connect(sockets, auth={"token": tokens["ada"]})
    old = device.token
    await device.connect(sockets, auth={"token": tokens["ada"], "deviceToken": "claw_dev_lost"})
    assert device.token != old
    error = await device.connect_error(sockets, auth={"token": old})
    assert error["details"]["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"


# With its own token


async def test_device_token_is_invalid_for_another_device(device, sockets, tokens):
    await device.connect(sockets, auth={"token": tokens["ada"]})
    error = await FakeDevice().connect_error(sockets, auth={"token": device.token})
    assert (error["code"], error["details"]["code"]) == ("INVALID_REQUEST", "AUTH_DEVICE_TOKEN_MISMATCH")
    assert await db.read(FailedSignIns.objects.exists), "guessing is slowed down"


async def test_device_scopes_follow_and_never_exceed_the_account(device, sockets, people, tokens):
    from django.contrib.auth.models import Group

    await device.connect(sockets, auth={"token": tokens["olga"]})
    socket = await device.connect(sockets, auth={"token": device.token})
    assert "operator.pairing" in socket.hello["auth"]["scopes"]
    await db.write(lambda: people["olga"].groups.remove(Group.objects.get(name="Operator")))
    assert await code_of(socket, "device.pair.list", {}) == "FORBIDDEN"
    later = await device.connect(sockets, auth={"token": device.token})
    assert later.hello["auth"]["scopes"] == CHAT


async def test_device_scope_upgrade_requires_approval(device, sockets, tokens):
    await device.connect(sockets, auth={"token": tokens["olga"]}, scopes=["operator.read"])
    error = await device.connect_error(sockets, auth={"token": device.token}, scopes=["operator.read", "operator.pairing"])
    assert (error["details"]["reason"], error["details"]["approvedScopes"]) == ("scope-upgrade", ["operator.read"])
    olga = await sockets.connect(tokens["olga"])
    await olga.call("device.pair.approve", {"requestId": error["details"]["requestId"]})
    socket = await device.connect(sockets, auth={"token": device.token}, scopes=["operator.read", "operator.pairing"])
    assert socket.hello["auth"]["scopes"] == ["operator.pairing", "operator.read"]


async def test_account_token_upgrades_device_scopes_without_approval(device, sockets, tokens):
    await device.connect(sockets, auth={"token": tokens["olga"]}, scopes=["operator.read"])
    await device.connect(sockets, auth={"token": tokens["olga"]}, scopes=["operator.write"])
    socket = await device.connect(sockets, auth={"token": device.token}, scopes=["operator.write"])
    assert socket.hello["auth"]["scopes"] == CHAT


@pytest.mark.parametrize("end", [{"revoked_at": LONG_AGO}, {"expires_at": LONG_AGO}])
async def test_device_token_ends_with_its_access_token(device, sockets, tokens, end):
    await device.connect(sockets, auth={"token": tokens["ada"]}, scopes=CHAT)
    assert device.token
    await device.connect(sockets, auth={"token": device.token}, scopes=CHAT)
    await db.write(lambda: AccessToken.objects.filter(user__username="ada").update(**end))
    error = await device.connect_error(sockets, auth={"token": device.token}, scopes=CHAT)
    assert error["details"]["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"


async def test_device_token_inherits_access_token_limits(device, sockets, tokens):
    await device.connect(sockets, auth={"token": tokens["ada"]}, scopes=CHAT)
    await db.write(lambda: AccessToken.objects.filter(user__username="ada").update(tools={"deny": ["exec"]}))
    own = await db.read(lambda: DeviceToken.objects.valid().get())
    assert own.limited_account().key_limits["deny"] == ["exec"]


async def test_device_paired_with_foreign_token_acts_for_its_owner(device, sockets, tokens, people):
    await device.connect(sockets, auth={"token": tokens["ada"]}, scopes=CHAT)
    of_olga = AccessToken.objects.filter(user=people["olga"])
    await db.write(lambda: DeviceToken.objects.update(made_with=of_olga.get()))
    socket = await device.connect(sockets, auth={"token": device.token}, scopes=CHAT)
    await socket.call("sessions.create", {"key": "agent:main:device"})
    assert (await db.read(Session.objects.get, key="agent:main:device")).owner_id == people["ada"].pk
    await db.write(lambda: of_olga.update(tools={"deny": ["exec"]}))
    own = await db.read(lambda: DeviceToken.objects.valid().get().limited_account())
    assert (own.username, own.key_limits["deny"]) == ("ada", ["exec"])


async def test_deactivated_account_ends_its_devices(device, sockets, people, tokens):
    await device.connect(sockets, auth={"token": tokens["ada"]})
    socket = await device.connect(sockets, auth={"token": device.token})

    def close():
        people["ada"].is_active = False
        people["ada"].save()

    await db.write(close)
    assert await socket.closed() == (4001, "auth changed")
    assert (await device.connect_error(sockets, auth={"token": device.token}))["details"]["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"


# With nothing but its signature


async def test_unknown_device_is_approved_and_fetches_token_once(device, sockets, tokens):
    pia, ada = await sockets.connect(tokens["pia"]), await sockets.connect(tokens["ada"])
    other = await requested(device, sockets, scopes=["operator.read", "operator.pairing", "operator.admin"])
    request = await requested(device, sockets, scopes=["operator.read"])
    assert await code_of(pia, "device.pair.approve", {"requestId": other}) == "CONFLICT", "it asks for something else now"
    heard = await pia.event("device.pair.requested", requestId=request)
    assert (heard["deviceId"], heard["clientId"], heard["account"]) == (device.id, "openclaw-tui", None)
    assert await requested(device, sockets, scopes=["operator.read"]) == request, "however often it tries"
    (waiting,) = (await pia.call("device.pair.list"))["pending"]
    assert (waiting["requestId"], waiting["scopes"]) == (request, ["operator.read"])
    answer = await pia.call("device.pair.approve", {"requestId": request})
    assert (answer["device"]["owner"], answer["device"]["scopes"]) == ("pia", ["operator.read"])
    resolved = await pia.event("device.pair.resolved", requestId=request)
    assert (resolved["decision"], resolved["deviceId"]) == ("approved", device.id)
    assert await pia.call("device.pair.approve", {"requestId": request}) == answer, "the same again is fine"
    assert await code_of(pia, "device.pair.reject", {"requestId": request}) == "CONFLICT"
    assert ada.events("device.pair.requested") == [], "who may not pair devices is not told"

    socket = await device.connect(sockets)
    assert socket.hello["auth"]["deviceToken"]
    assert await device.connect(sockets, auth={"token": device.token})
    await requested(device, sockets)  # the token was handed out: the signature alone is no longer enough


async def test_approver_cannot_grant_more_than_own_scopes(device, sockets, people, make_token):
    narrow = make_token(people["olga"], "operator.pairing")
    olga = await sockets.connect(narrow)
    request = await requested(device, sockets, scopes=["operator.admin"])
    answer = await olga.call("device.pair.approve", {"requestId": request})
    assert answer["device"]["scopes"] == ["operator.pairing"]
    socket = await device.connect(sockets)
    assert socket.hello["auth"]["scopes"] == ["operator.pairing"]


async def test_rejected_device_cannot_connect(device, sockets, tokens):
    olga = await sockets.connect(tokens["olga"])
    request = await requested(device, sockets)
    assert await olga.call("device.pair.reject", {"requestId": request}) == {"requestId": request, "deviceId": device.id}
    await olga.event("device.pair.resolved", requestId=request, decision="rejected")
    assert await code_of(olga, "device.pair.approve", {"requestId": request}) == "CONFLICT"
    assert await requested(device, sockets) != request


async def test_rejected_node_cannot_connect(device, sockets, tokens):
    olga = await sockets.connect(tokens["olga"])
    as_node = {"role": "node", "auth": {"token": tokens["ada"]}}
    request = await requested(device, sockets, **as_node)
    assert await olga.call("node.pair.reject", {"requestId": request}) == {"requestId": request, "deviceId": device.id}
    await olga.event("node.pair.resolved", requestId=request, decision="rejected")
    assert await code_of(olga, "node.pair.approve", {"requestId": request}) == "CONFLICT"
    assert await requested(device, sockets, **as_node) != request


async def test_expired_request_cannot_be_approved(device, sockets, tokens):
    from datetime import timedelta

    from django.utils import timezone

    olga = await sockets.connect(tokens["olga"])
    request = await requested(device, sockets)
    await db.write(PairingRequest.objects.all().update, expires_at=timezone.now() - timedelta(seconds=1))
    assert (await olga.call("device.pair.list"))["pending"] == []
    assert await code_of(olga, "device.pair.approve", {"requestId": request}) == "CONFLICT"


async def test_pending_devices_per_address_are_limited(sockets, monkeypatch):
    monkeypatch.setattr(connecting, "MAX_PENDING_PER_ADDRESS", 2)
    for _ in range(2):
        await requested(FakeDevice(), sockets)
    error = await FakeDevice().connect_error(sockets)
    assert (error["details"]["code"], error["retryable"]) == ("AUTH_RATE_LIMITED", True)


# Ownership


async def test_foreign_device_is_not_found(device, sockets, tokens):
    await device.connect(sockets, auth={"token": tokens["ada"]})
    node = FakeDevice()
    request = await requested(node, sockets, role="node", auth={"token": tokens["ada"]})
    pia = await sockets.connect(tokens["pia"])
    assert await pia.call("device.pair.list") == {"pending": [], "paired": []}
    of_role = {"deviceId": device.id, "role": "operator"}
    for method, params in {
        "device.pair.approve": {"requestId": request},
        "device.pair.reject": {"requestId": request},
        "device.pair.remove": {"deviceId": device.id},
        "device.pair.rename": {"deviceId": device.id, "label": "mine"},
        "node.pair.remove": {"nodeId": device.id},
        "device.token.rotate": of_role,
        "device.token.revoke": of_role,
        "node.pair.approve": {"requestId": request},
        "node.pair.reject": {"requestId": request},
        "node.rename": {"nodeId": node.id, "displayName": "mine"},
        "node.allow": {"nodeId": node.id, "commands": []},
    }.items():
        assert await code_of(pia, method, params) == "NOT_FOUND", method
    assert pia.events("device.pair.requested") == []
    olga = await sockets.connect(tokens["olga"])
    found = await olga.call("device.pair.list")
    assert [one["requestId"] for one in found["pending"]] == [request]
    assert [(one["deviceId"], one["owner"]) for one in found["paired"]] == [(device.id, "ada")]
    assert "digest" not in str(found)
    assert device.token not in str(found)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("device.pair.list", {}),
        ("device.pair.approve", {"requestId": "x"}),
        ("device.pair.reject", {"requestId": "x"}),
        ("device.pair.remove", {"deviceId": "x"}),
        ("device.pair.rename", {"deviceId": "x", "label": "y"}),
        ("node.pair.remove", {"nodeId": "x"}),
        ("device.token.rotate", {"deviceId": "x", "role": "operator"}),
        ("device.token.revoke", {"deviceId": "x", "role": "operator"}),
        ("node.pair.list", {}),
        ("node.pair.approve", {"requestId": "x"}),
        ("node.pair.reject", {"requestId": "x"}),
        ("node.rename", {"nodeId": "x", "displayName": "y"}),
        ("node.allow", {"nodeId": "x", "commands": []}),
    ],
)
async def test_methods_enforce_scope_and_validate_parameters(sockets, tokens, method, params):
    ada = await sockets.connect(tokens["ada"])
    answer = await ada.request(method, params)
    assert (answer["error"]["code"], answer["error"]["details"]["missingScope"]) == ("FORBIDDEN", "operator.pairing")
    olga = await sockets.connect(tokens["olga"])
    assert await code_of(olga, method, {**params, "unknown": 1}) == "INVALID_REQUEST"
    if params:
        assert await code_of(olga, method, params) == "NOT_FOUND"
        assert await code_of(olga, method, {}) == "INVALID_REQUEST"


async def test_approver_needs_permission_to_name_an_owner(device, sockets, tokens):
    request = await requested(device, sockets, role="node")
    pia, olga = await sockets.connect(tokens["pia"]), await sockets.connect(tokens["olga"])
    assert await code_of(pia, "device.pair.approve", {"requestId": request, "owner": "ada"}) == "NOT_FOUND"
    answer = await olga.call("device.pair.approve", {"requestId": request, "owner": "ada"})
    assert answer["device"]["owner"] == "ada"
    assert await device.connect(sockets, role="node")


async def test_device_cannot_be_paired_for_another_user(device, sockets, tokens):
    request = await requested(device, sockets)
    olga = await sockets.connect(tokens["olga"])
    assert await code_of(olga, "device.pair.approve", {"requestId": request, "owner": "ada"}) == "INVALID_REQUEST"
    assert await code_of(olga, "device.pair.approve", {"requestId": request, "owner": "nobody"}) == "NOT_FOUND"
    assert not await db.read(Device.objects.exists)


# Revoking


async def test_revoked_device_is_disconnected_and_cannot_reconnect(device, sockets, tokens):
    by_account = await device.connect(sockets, auth={"token": tokens["ada"]})
    by_token = await device.connect(sockets, auth={"token": device.token})
    other = await sockets.connect(tokens["ada"])
    olga = await sockets.connect(tokens["olga"])
    await olga.call("device.pair.remove", {"deviceId": device.id})
    for socket in (by_account, by_token):
        assert await socket.closed() == (4001, "auth changed")
    assert await other.call("health"), "what has no device goes on"
    assert (await device.connect_error(sockets, auth={"token": device.token}))["details"]["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"
    request = await requested(device, sockets, auth={"token": tokens["ada"]})
    assert await code_of(olga, "device.pair.remove", {"deviceId": device.id}) == "NOT_FOUND"
    answer = await olga.call("device.pair.approve", {"requestId": request})
    assert (answer["device"]["owner"], answer["device"]["scopes"]) == ("ada", CHAT)
    assert await device.connect(sockets, auth={"token": tokens["ada"]})


async def test_removed_node_remains_an_operator_device(device, sockets, tokens):
    await device.connect(sockets, auth={"token": tokens["ada"]})
    operator = await device.connect(sockets, auth={"token": device.token})
    olga = await sockets.connect(tokens["olga"])
    assert await code_of(olga, "node.pair.remove", {"nodeId": device.id}) == "NOT_FOUND", "it is none yet"
    request = await requested(device, sockets, role="node", auth={"token": tokens["ada"]})
    await olga.call("node.pair.approve", {"requestId": request})
    node = await device.connect(sockets, role="node", auth={"token": tokens["ada"]})
    assert await olga.call("node.pair.remove", {"nodeId": device.id}) == {"nodeId": device.id}
    assert await node.closed() == (4001, "auth changed")
    assert await operator.call("health")
    await requested(device, sockets, role="node", auth={"token": tokens["ada"]})
    (left,) = (await olga.call("device.pair.list"))["paired"]
    assert (left["roles"], [token["role"] for token in left["tokens"]]) == (["operator"], ["operator"])


async def test_device_keeps_its_assigned_name(device, sockets, tokens):
    await device.connect(sockets, auth={"token": tokens["ada"]})
    olga = await sockets.connect(tokens["olga"])
    named = {"deviceId": device.id, "label": "Desk"}
    assert await olga.call("device.pair.rename", named) == named
    await device.connect(sockets, auth={"token": tokens["ada"]}, client={"displayName": "Other"})
    (listed,) = (await olga.call("device.pair.list"))["paired"]
    assert listed["displayName"] == "Desk"
    assert await code_of(olga, "device.pair.rename", {**named, "label": "x" * 65}) == "INVALID_REQUEST"
    (row,) = await db.read(lambda: list(AuditEntry.objects.filter(subject_id=device.id, action="device.renamed").values()))
    assert (row["actor_name"], row["details"]["name"]) == ("olga", "Desk")


async def test_rotated_token_is_fetched_and_closes_old_connections(device, sockets, tokens):
    await device.connect(sockets, auth={"token": tokens["ada"]})
    socket, old = await device.connect(sockets, auth={"token": device.token}), device.token
    olga = await sockets.connect(tokens["olga"])
    rotated = await olga.call("device.token.rotate", {"deviceId": device.id, "role": "operator", "scopes": ["operator.read"]})
    assert (rotated["scopes"], "token" in rotated) == (["operator.read"], False), "a secret is told to its device only"
    assert await socket.closed() == (4001, "auth changed")
    assert (await device.connect_error(sockets, auth={"token": old}))["details"]["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"
    fetched = await device.connect(sockets)
    assert (fetched.hello["auth"]["scopes"], device.token != old) == (["operator.read"], True)


async def test_device_rotating_its_own_token_receives_the_new_one(device, sockets, tokens):
    await device.connect(sockets, auth={"token": tokens["olga"]})
    socket = await device.connect(sockets, auth={"token": device.token}, scopes=["operator.pairing"])
    rotated = await socket.call("device.token.rotate", {"deviceId": device.id, "role": "operator"})
    assert rotated["scopes"] == ["operator.pairing"], "it asked with less, so it gets less"
    assert (await socket.closed())[0] == 4001
    assert (await device.connect(sockets, auth={"token": rotated["token"]})).hello["auth"]["scopes"] == ["operator.pairing"]


async def test_revoked_token_is_not_issued_again(device, sockets, tokens):
    await device.connect(sockets, auth={"token": tokens["ada"]})
    socket = await device.connect(sockets, auth={"token": device.token})
    olga = await sockets.connect(tokens["olga"])
    revoked = await olga.call("device.token.revoke", {"deviceId": device.id, "role": "operator"})
    assert (revoked["deviceId"], revoked["role"]) == (device.id, "operator")
    assert (await socket.closed())[0] == 4001
    assert await code_of(olga, "device.token.revoke", {"deviceId": device.id, "role": "operator"}) == "NOT_FOUND"
    await requested(device, sockets)
    assert await device.connect(sockets, auth={"token": tokens["ada"]}), "its account gives it another"


async def test_pairing_is_audited_without_secrets(device, sockets, tokens, caplog):
    await device.connect(sockets, auth={"token": tokens["ada"]})
    olga = await sockets.connect(tokens["olga"])
    await olga.call("device.token.rotate", {"deviceId": device.id, "role": "operator"})
    await device.connect(sockets)
    await olga.call("device.pair.remove", {"deviceId": device.id})
    rows = await db.read(lambda: list(AuditEntry.objects.filter(subject_id=device.id).order_by("pk").values()))
    assert [(row["action"], row["actor_name"]) for row in rows] == [
        ("device.paired", "ada"),
        ("device_token.made", "ada"),
        ("device_token.rotated", "olga"),
        ("device_token.made", "ada"),
        ("device.revoked", "olga"),
    ]
    stored = str(rows) + str(await db.read(lambda: list(DeviceToken.objects.values()))) + caplog.text
    assert device.token not in stored
