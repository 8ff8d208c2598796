"""Webhook signatures: HMAC-SHA256 of the body, or of a timestamp and the body. Pure.

plain   the header is `sha256=<hex>` (GitHub, Gitea), `<hex>` alone, or base64 (Shopify); the body alone is signed
timed   the header is `t=<seconds>,v1=<hex>[,v1=…]` (Stripe); `<seconds>.` and the body are signed
"""

import base64
import binascii
import hmac
from hashlib import sha256

PLAIN, TIMED = "plain", "timed"
WINDOW_SECONDS = 300  # allowed clock difference and delay
MAX_SIGNATURES = 5  # per header; a sender that is rotating its secret signs with both


class InvalidSignature(Exception):
    """The signature is missing or invalid. The message is for the log and contains no secret."""


def verify_signature(kind: str, header: str, body: bytes, secret: str, now: float) -> str:
    """Return the digest of the signed content, which identifies replays. Raise InvalidSignature if the signature does not match."""
    if not header:
        raise InvalidSignature("the signature header is missing")
    if kind == TIMED:
        moment, given = _parse_timed(header)
        if abs(now - moment) > WINDOW_SECONDS:
            raise InvalidSignature(f"the timestamp is more than {WINDOW_SECONDS // 60} minutes off")
        signed = f"{moment}.".encode() + body
    else:
        given, signed = [_decode_digest(header.strip().removeprefix("sha256="))], body
    wanted = hmac.new(secret.encode(), signed, sha256).digest()
    if not any(hmac.compare_digest(wanted, each) for each in given):
        raise InvalidSignature("the signature is wrong")
    return sha256(signed).hexdigest()


def sign_body(kind: str, body: bytes, secret: str, now: float) -> str:
    """Return the header that a sender would set, for test deliveries."""
    moment = int(now)
    signed = f"{moment}.".encode() + body if kind == TIMED else body
    value = hmac.new(secret.encode(), signed, sha256).hexdigest()
    return f"t={moment},v1={value}" if kind == TIMED else f"sha256={value}"


def _parse_timed(header: str) -> tuple[int, list[bytes]]:
    pairs = [part.strip().partition("=") for part in header.split(",")]
    moments = [value for name, _, value in pairs if name == "t"]
    given = [_decode_digest(value) for name, _, value in pairs if name == "v1"]
    if len(moments) != 1 or not moments[0].isascii() or not moments[0].isdecimal() or len(moments[0]) > 12:
        raise InvalidSignature("the signature header has no timestamp")
    if not given or len(given) > MAX_SIGNATURES:
        raise InvalidSignature("the signature header has no v1 signature, or too many")
    return int(moments[0]), given


def _decode_digest(text: str) -> bytes:
    """Decode 32 bytes from hexadecimal or base64. Return empty bytes, which never match, for anything else."""
    try:
        return bytes.fromhex(text) if len(text) == 64 else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return b""
