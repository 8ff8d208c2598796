"""A device's proof: what is signed, which signatures are valid, and the error for invalid ones."""

import dataclasses

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from clawsite.gateway.devices.identity import ConnectContext, InvalidDeviceProof, Proof, SignedFields, build_payloads, verify_proof
from clawsite.gateway.devices.node_commands import is_allowed_by_default
from tests.harness.devices import FakeDevice, base64url

# RFC 8032, section 7.1, test 1: a public test key.
RFC_PRIVATE = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
RFC_PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
NOW = 1_700_000_000_000
NONCE = "0123456789abcdef"
SIGNED = SignedFields("openclaw-tui", "ui", "operator", ("operator.read", "operator.write"), "secret", " MacOS ", "ÄPPLE-Mac")
HERE = ConnectContext(4, NONCE, NOW, local=False)
FORMS = {
    "v1": "v1|{id}|openclaw-tui|ui|operator|operator.read,operator.write|1700000000000|secret",
    "v2": "v2|{id}|openclaw-tui|ui|operator|operator.read,operator.write|1700000000000|secret|0123456789abcdef",
    "v3": "v3|{id}|openclaw-tui|ui|operator|operator.read,operator.write|1700000000000|secret|0123456789abcdef|macos|Äpple-mac",
}


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice(seed=7)


def proof_of(device: FakeDevice, form: str = "v3", **changed: object) -> Proof:
    nonce = None if form == "v1" else NONCE
    signature = device.sign(FORMS[form].format(id=device.id))
    return dataclasses.replace(Proof(device.id, device.public_key, signature, NOW, nonce), **changed)


def fault(proof: Proof, signed: SignedFields = SIGNED, here: ConnectContext = HERE) -> str:
    with pytest.raises(InvalidDeviceProof) as refused:
        verify_proof(proof, signed, here)
    return f"{refused.value.message} {refused.value.code}"


def test_device_id_is_derived_from_the_public_key():
    key = Ed25519PrivateKey.from_private_bytes(RFC_PRIVATE).public_key().public_bytes_raw()
    assert key.hex() == RFC_PUBLIC
    told = Proof("21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9", base64url(key), "AA", NOW, NONCE)
    assert fault(told) == "device signature invalid DEVICE_AUTH_SIGNATURE_INVALID", "the name was right"


def test_signed_payloads_match_the_documented_forms(device):
    assert build_payloads(proof_of(device, "v1"), SIGNED) == [FORMS["v1"].format(id=device.id)]
    assert build_payloads(proof_of(device), SIGNED) == [FORMS["v3"].format(id=device.id), FORMS["v2"].format(id=device.id)]


@pytest.mark.parametrize("form", ["v2", "v3"])
@pytest.mark.parametrize("protocol", [1, 3, 4])
def test_valid_signature_is_accepted_in_every_protocol(device, form, protocol):
    verify_proof(proof_of(device, form), SIGNED, dataclasses.replace(HERE, protocol=protocol))


def test_signature_without_nonce_needs_local_legacy_client(device):
    old, here = dataclasses.replace(HERE, protocol=3), dataclasses.replace(HERE, protocol=3, local=True)
    verify_proof(proof_of(device, "v1"), SIGNED, here)
    assert fault(proof_of(device, "v1"), here=old) == "device nonce required DEVICE_AUTH_NONCE_REQUIRED"
    newest = dataclasses.replace(HERE, local=True)
    assert fault(proof_of(device, "v1"), here=newest) == "device nonce required DEVICE_AUTH_NONCE_REQUIRED"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"public_key": "AAAA"}, "device public key invalid DEVICE_AUTH_PUBLIC_KEY_INVALID"),
        ({"public_key": "ä" * 43}, "device public key invalid DEVICE_AUTH_PUBLIC_KEY_INVALID"),
        ({"public_key": base64url(bytes(32))}, "device identity mismatch DEVICE_AUTH_DEVICE_ID_MISMATCH"),
        ({"device_id": "0" * 64}, "device identity mismatch DEVICE_AUTH_DEVICE_ID_MISMATCH"),
        ({"nonce": "another"}, "device nonce mismatch DEVICE_AUTH_NONCE_MISMATCH"),
        ({"nonce": ""}, "device nonce required DEVICE_AUTH_NONCE_REQUIRED"),
        ({"signature": base64url(bytes(64))}, "device signature invalid DEVICE_AUTH_SIGNATURE_INVALID"),
        ({"signature": "short"}, "device signature invalid DEVICE_AUTH_SIGNATURE_INVALID"),
        ({"signed_at": NOW + 1}, "device signature invalid DEVICE_AUTH_SIGNATURE_INVALID"),
    ],
)
def test_invalid_proof_returns_the_documented_error(device, changed, said):
    assert fault(proof_of(device, **changed)) == said


@pytest.mark.parametrize(("protocol", "skew"), [(4, 120_000), (3, 600_000), (1, 600_000)])
def test_expired_and_future_signatures_are_rejected(device, protocol, skew):
    for sign in (1, -1):
        there = ConnectContext(protocol, NONCE, NOW + sign * skew, local=False)
        verify_proof(proof_of(device), SIGNED, there)
        too_far = dataclasses.replace(there, now_ms=NOW + sign * (skew + 1))
        assert fault(proof_of(device), here=too_far) == "device signature expired DEVICE_AUTH_SIGNATURE_EXPIRED"


@pytest.mark.parametrize(
    "other",
    [
        {"client_id": "cli"},
        {"client_mode": "cli"},
        {"role": "node"},
        {"scopes": ("operator.admin",)},
        {"token": "another"},
        {"platform": "linux"},
        {"device_family": ""},
    ],
)
def test_signature_over_another_payload_is_rejected(device, other):
    assert "signature invalid" in fault(proof_of(device), dataclasses.replace(SIGNED, **other))


@pytest.mark.parametrize("command", ["canvas.present", "lights.on", "device.info", "canvas.a2ui.push", "thermostat.set"])
def test_harmless_commands_are_allowed_by_default(command):
    assert is_allowed_by_default(command)


@pytest.mark.parametrize(
    "command",
    [
        "system.run",
        "system.which",
        "System.Run",
        "shellCommand",
        "camera.snap",
        "screen.record",
        "sms.send",
        "canvas.eval",
        "dir.list",
        "dir.fetch",
        "workspace.memory",
        "run",
        "",
    ],
)
def test_privileged_commands_are_not_allowed_by_default(command):
    assert not is_allowed_by_default(command)
