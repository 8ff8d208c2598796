"""Secrets at rest: readable here, for their own purpose, and nowhere else."""

import pytest

from clawsite.infra.encryption import decrypt, encrypt
from clawsite.infra.errors import Unavailable


def test_a_sealed_secret_is_read_back_and_does_not_show(settings):
    sealed = encrypt("häkchen", purpose="one")
    assert decrypt(sealed, purpose="one") == "häkchen"
    assert "häkchen" not in sealed
    assert encrypt("häkchen", purpose="one") != sealed


def test_another_purpose_another_installation_or_a_changed_letter_open_nothing(settings):
    sealed = encrypt("secret", purpose="one")
    with pytest.raises(Unavailable):
        decrypt(sealed, purpose="two")
    with pytest.raises(Unavailable):
        decrypt(sealed[:-4] + "AAA=", purpose="one")
    settings.SECRET_KEY = "another"
    with pytest.raises(Unavailable, match="enter it again"):
        decrypt(sealed, purpose="one")
