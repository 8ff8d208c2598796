"""Encrypt secrets that must be readable later, such as signing secrets, with the server's secret key.

The database alone is then not enough to read them. Values that are only compared, such as
tokens, are stored as digests instead.
"""

import base64
from hashlib import sha256
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.translation import gettext as _

from clawsite.infra.errors import Unavailable

if TYPE_CHECKING:  # imported on first use: it takes 50 ms, and most processes never need it
    from cryptography.fernet import Fernet


def encrypt(secret: str, *, purpose: str) -> str:
    """Encrypt the secret for storage. A value encrypted for one purpose can't be decrypted for another."""
    return _make_fernet(purpose).encrypt(secret.encode()).decode()


def decrypt(sealed: str, *, purpose: str) -> str:
    from cryptography.fernet import InvalidToken

    try:
        return _make_fernet(purpose).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise Unavailable(_("a stored secret can't be decrypted with the server's current key; enter it again")) from None


def _make_fernet(purpose: str) -> "Fernet":
    from cryptography.fernet import Fernet

    # A plain digest is enough: the server's secret is 256 random bits, not a password.
    key = sha256(f"clawsite.sealed\0{purpose}\0{settings.SECRET_KEY}".encode()).digest()
    return Fernet(base64.urlsafe_b64encode(key))
