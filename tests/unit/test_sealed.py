"""Encrypted secrets: readable on this server, for their own purpose, and nowhere else."""

import pytest

from clawsite.infra.encryption import decrypt, encrypt
from clawsite.infra.errors import Unavailable


def test_encrypted_secret_round_trips_and_is_not_visible(settings):
    sealed = encrypt("häkchen", purpose="one")
    assert decrypt(sealed, purpose="one") == "häkchen"
    assert "häkchen" not in sealed
    assert encrypt("häkchen", purpose="one") != sealed


def test_decryption_fails_with_wrong_purpose_key_or_ciphertext(settings):
    sealed = encrypt("secret", purpose="one")
    with pytest.raises(Unavailable):
        decrypt(sealed, purpose="two")
    with pytest.raises(Unavailable):
        decrypt(sealed[:-4] + "AAA=", purpose="one")
    settings.SECRET_KEY = "another"
    with pytest.raises(Unavailable, match="enter it again"):
        decrypt(sealed, purpose="one")
