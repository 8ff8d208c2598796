"""A device's identity: an Ed25519 key, identified by its digest, and the signature that proves possession on every connect.

Pure, without database access. The signed text is one line of fields; OpenClaw's clients write it in three forms: v1 without a
nonce for a client on the same host, v2 and v3 with the nonce of this connection's challenge.
"""

import base64
import binascii
from dataclasses import dataclass
from hashlib import sha256

from clawsite.gateway.protocol.frames import NEWEST_PROTOCOL

KEY_BYTES = 32
SIGNATURE_BYTES = 64
# Allowed clock skew, as in OpenClaw's older and newest protocols.
SKEW_MS = 600_000
SKEW_MS_NEWEST = 120_000


class InvalidDeviceProof(Exception):
    """The device's proof is invalid. Its message and code are those known to OpenClaw's clients."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.code = f"DEVICE_AUTH_{code}"


@dataclass(frozen=True, slots=True)
class Proof:
    """The identity and signature that a device sends."""

    device_id: str
    public_key: str  # base64url of the 32 raw bytes
    signature: str
    signed_at: int
    nonce: str | None


@dataclass(frozen=True, slots=True)
class SignedFields:
    """The other signed fields, as the client sent them in `connect`."""

    client_id: str
    client_mode: str
    role: str
    scopes: tuple[str, ...]
    token: str
    platform: str
    device_family: str


@dataclass(frozen=True, slots=True)
class ConnectContext:
    """The server's view: the challenge of this connection, the time, and whether the client is local."""

    protocol: int
    nonce: str
    now_ms: int
    local: bool  # on this host and not through a proxy


def verify_proof(proof: Proof, signed: SignedFields, context: ConnectContext) -> None:
    """Raise InvalidDeviceProof unless the device signed this connection with its key. Checks are in OpenClaw's order."""
    key = _decode(proof.public_key, KEY_BYTES)
    if key is None:
        raise InvalidDeviceProof("device public key invalid", "PUBLIC_KEY_INVALID")
    if proof.device_id != device_id_of(key):
        raise InvalidDeviceProof("device identity mismatch", "DEVICE_ID_MISMATCH")
    if abs(context.now_ms - proof.signed_at) > (SKEW_MS_NEWEST if context.protocol >= NEWEST_PROTOCOL else SKEW_MS):
        raise InvalidDeviceProof("device signature expired", "SIGNATURE_EXPIRED")
    # The newest protocol always requires a nonce.
    if not proof.nonce and (context.protocol >= NEWEST_PROTOCOL or not context.local):
        raise InvalidDeviceProof("device nonce required", "NONCE_REQUIRED")
    if proof.nonce and proof.nonce != context.nonce:
        raise InvalidDeviceProof("device nonce mismatch", "NONCE_MISMATCH")
    signature = _decode(proof.signature, SIGNATURE_BYTES)
    if signature is None or not any(_is_signed(key, signature, text) for text in build_payloads(proof, signed)):
        raise InvalidDeviceProof("device signature invalid", "SIGNATURE_INVALID")


def device_id_of(key: bytes) -> str:
    return sha256(key).hexdigest()


def build_payloads(proof: Proof, signed: SignedFields) -> list[str]:
    """Return the texts that the device may have signed, newest form first."""
    if not proof.nonce:
        return ["|".join(_fields("v1", proof, signed))]
    v3 = [*_fields("v3", proof, signed), proof.nonce, _normalize(signed.platform), _normalize(signed.device_family)]
    return ["|".join(v3), "|".join([*_fields("v2", proof, signed), proof.nonce])]


def _fields(version: str, proof: Proof, signed: SignedFields) -> list[str]:
    head = [version, proof.device_id, signed.client_id, signed.client_mode, signed.role]
    return [*head, ",".join(signed.scopes), str(proof.signed_at), signed.token]


def _normalize(text: str) -> str:
    """Trim, and lowercase only ASCII letters, because lowercasing other letters is ambiguous."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text.strip())


def _decode(text: str, size: int) -> bytes | None:
    """Decode base64url, with or without padding. Return None unless it has exactly `size` bytes."""
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):  # ValueError: non-ASCII characters
        return None
    return decoded if len(decoded) == size else None


def _is_signed(key: bytes, signature: bytes, text: str) -> bool:
    # Imported here because most web processes never see a device: the import takes about 20 ms and 8 MB.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text.encode())
    except (InvalidSignature, ValueError):  # ValueError: the 32 bytes are not a point on the curve
        return False
    return True
