"""Webhook signatures: senders who sign with the secret are authenticated, others are not, and only for a limited time."""

import base64
import hmac
from hashlib import sha256

import pytest

from clawsite.connectors.webhook.signatures import PLAIN, TIMED, InvalidSignature, sign_body, verify_signature

# From GitHub's webhook documentation.
GITHUB = (b"Hello, World!", "It's a Secret to Everybody", "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
NOW = 1_800_000_000.0


@pytest.mark.parametrize("head", ["sha256=", ""])
def test_github_example_signature_is_accepted(head):
    body, secret, signature = GITHUB
    assert verify_signature(PLAIN, head + signature, body, secret, NOW) == sha256(body).hexdigest()


def test_base64_signature_is_accepted():
    body, secret, signature = GITHUB
    assert verify_signature(PLAIN, base64.b64encode(bytes.fromhex(signature)).decode(), body, secret, NOW)


@pytest.mark.parametrize("kind", [PLAIN, TIMED])
def test_signature_is_rejected_for_different_body_or_secret(kind):
    header = sign_body(kind, b"body", "secret", NOW)
    assert verify_signature(kind, header, b"body", "secret", NOW)
    for body, secret in ((b"bodY", "secret"), (b"body", "secreT"), (b"", "secret")):
        with pytest.raises(InvalidSignature):
            verify_signature(kind, header, body, secret, NOW)


@pytest.mark.parametrize(("off", "believed"), [(0, True), (299, True), (-299, True), (301, False), (-301, False)])
def test_signed_timestamp_is_valid_for_five_minutes(off, believed):
    header = sign_body(TIMED, b"body", "secret", NOW)
    if believed:
        assert verify_signature(TIMED, header, b"body", "secret", NOW + off)
    else:
        with pytest.raises(InvalidSignature):
            verify_signature(TIMED, header, b"body", "secret", NOW + off)


def test_timestamp_is_covered_by_the_signature():
    header = sign_body(TIMED, b"body", "secret", NOW)
    forged = header.replace(f"t={int(NOW)}", f"t={int(NOW) + 60}")
    with pytest.raises(InvalidSignature):
        verify_signature(TIMED, forged, b"body", "secret", NOW + 60)


def test_either_signature_is_accepted_during_secret_rotation():
    header = f"{sign_body(TIMED, b'body', 'old', NOW)},v1={hmac.new(b'new', f'{int(NOW)}.body'.encode(), sha256).hexdigest()}"
    assert verify_signature(TIMED, header, b"body", "new", NOW) == verify_signature(TIMED, header, b"body", "old", NOW)


@pytest.mark.parametrize(
    "header", ["", "sha256=", "sha256=zz", "sha1=0000", "=" * 64, "x" * 64, "é" * 64, "00" * 32, "t=1", "v1=" + "00" * 32]
)
@pytest.mark.parametrize("kind", [PLAIN, TIMED])
def test_malformed_signature_is_rejected(kind, header):
    with pytest.raises(InvalidSignature):
        verify_signature(kind, header, b"body", "secret", NOW)


@pytest.mark.parametrize("moment", ["1e9", "٣", "-5", "9" * 30, ""])
def test_malformed_timestamp_is_rejected(moment):
    with pytest.raises(InvalidSignature):
        verify_signature(TIMED, f"t={moment},v1={'00' * 32}", b"body", "secret", NOW)
