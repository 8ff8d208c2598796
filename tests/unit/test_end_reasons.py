"""The codes of ended runs have texts for pages."""

import pytest

from clawsite.api.openai.runs import CLIENT_LEFT, CREDENTIAL_ENDED
from sessions_app.runs.end_reasons import end_reason


@pytest.mark.parametrize("code", [CLIENT_LEFT, CREDENTIAL_ENDED, "not_found", "conflict", "forbidden", "unreadable"])
def test_code_has_a_text(code):
    assert end_reason(code).code == f"run.{code}"
