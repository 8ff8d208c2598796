"""Moments look the same on every page of ours: how long ago, and the exact one as the title."""

from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings

from clawsite.infra.templatetags.moments import moment

TEMPLATES = Path(settings.BASE_DIR) / "templates"


def test_no_page_has_a_form_of_its_own():
    own = [str(page) for page in TEMPLATES.rglob("*.html") if "DATETIME_FORMAT" in page.read_text()]
    assert own == []


def test_a_moment_has_all_that_the_script_and_who_has_none_need():
    said = moment(datetime(2026, 1, 31, 12, 5, tzinfo=UTC))
    assert said.startswith('<time datetime="2026-01-31T12:05:00+00:00" title="Jan. 31, 2026, ')
    assert said.endswith("</time>")
    assert " data-ago>" in said
    assert moment(None) == ""
