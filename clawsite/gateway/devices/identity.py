"""Who a device is: an Ed25519 key, named by its digest, and the signature with which it proves at every connect that it has it.

Pure: no rows. What is signed is one line of fields; OpenClaw's clients write it in three forms, v1 without a nonce for a client
on the same host, v2 and v3 with the nonce of this connection's challenge.
"""

import base64
import binascii
from dataclasses import dataclass
from hashlib import sha256

from clawsite.gateway.protocol.frames import NEWEST_PROTOCOL

KEY_BYTES = 32
SIGNATURE_BYTES = 64
# How far the client's clock may be off: OpenClaw's two generations.
SKEW_MS = 600_000
SKEW_MS_NEWEST = 120_000


class InvalidDeviceProof(Exception):
    """The device is not what it says; the message and the code are those that OpenClaw's clients know."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.code = f"DEVICE_AUTH_{code}"


@dataclass(frozen=True, slots=True)
class Proof:
    """What a device sends about itself."""

    device_id: str
    public_key: str  # base64url of the 32 raw bytes
    signature: str
    signed_at: int
    nonce: str | None


@dataclass(frozen=True, slots=True)
class SignedFields:
    """The rest of what is signed, as the client sent it in `connect`."""

    client_id: str
    client_mode: str
    role: str
    scopes: tuple[str, ...]
    token: str
    platform: str
    device_family: str


@dataclass(frozen=True, slots=True)
class ConnectContext:
    """What this side knows: the challenge of this connection, the time, and where the client is."""

    protocol: int
    nonce: str
    now_ms: int
    local: bool  # on this host and not through a proxy


def verify_proof(proof: Proof, signed: SignedFields, here: ConnectContext) -> None:
    """BadProof unless the device holds its key and signed this very connection. In OpenClaw's order of checks."""
    key = _decode(proof.public_key, KEY_BYTES)
    if key is None:
        raise InvalidDeviceProof("device public key invalid", "PUBLIC_KEY_INVALID")
    if proof.device_id != device_id_of(key):
        raise InvalidDeviceProof("device identity mismatch", "DEVICE_ID_MISMATCH")
    if abs(here.now_ms - proof.signed_at) > (SKEW_MS_NEWEST if here.protocol >= NEWEST_PROTOCOL else SKEW_MS):
        raise InvalidDeviceProof("device signature expired", "SIGNATURE_EXPIRED")
    # In the newest protocol a nonce is always needed.
    if not proof.nonce and (here.protocol >= NEWEST_PROTOCOL or not here.local):
        raise InvalidDeviceProof("device nonce required", "NONCE_REQUIRED")
    if proof.nonce and proof.nonce != here.nonce:
        raise InvalidDeviceProof("device nonce mismatch", "NONCE_MISMATCH")
    signature = _decode(proof.signature, SIGNATURE_BYTES)
    if signature is None or not any(_is_signed(key, signature, text) for text in build_payloads(proof, signed)):
        raise InvalidDeviceProof("device signature invalid", "SIGNATURE_INVALID")


def device_id_of(key: bytes) -> str:
    return sha256(key).hexdigest()


def build_payloads(proof: Proof, signed: SignedFields) -> list[str]:
    """What the device may have signed, the newest form first."""
    if not proof.nonce:
        return ["|".join(_fields("v1", proof, signed))]
    v3 = [*_fields("v3", proof, signed), proof.nonce, _normalize(signed.platform), _normalize(signed.device_family)]
    return ["|".join(v3), "|".join([*_fields("v2", proof, signed), proof.nonce])]


def _fields(version: str, proof: Proof, signed: SignedFields) -> list[str]:
    who = [version, proof.device_id, signed.client_id, signed.client_mode, signed.role]
    return [*who, ",".join(signed.scopes), str(proof.signed_at), signed.token]


def _normalize(text: str) -> str:
    """Trimmed, and only ASCII in lower case: other letters have no one lower case."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text.strip())


def _decode(text: str, size: int) -> bytes | None:
    """base64url, with or without its padding; None unless it is exactly so many bytes."""
    try:
        found = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):  # ValueError: letters beyond ASCII
        return None
    return found if len(found) == size else None


def _is_signed(key: bytes, signature: bytes, text: str) -> bool:
    # Here, because most web processes never see a device: it takes some 20 ms and 8 MB.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text.encode())
    except (InvalidSignature, ValueError):  # ValueError: 32 bytes that are no point of the curve
        return False
    return True
