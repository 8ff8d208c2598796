"""Times look the same on every page: relative, with the exact time as the title."""

from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings

from clawsite.infra.templatetags.moments import moment

TEMPLATES = Path(settings.BASE_DIR) / "templates"


def test_templates_do_not_use_datetime_format_directly():
    own = [str(page) for page in TEMPLATES.rglob("*.html") if "DATETIME_FORMAT" in page.read_text()]
    assert own == []


def test_time_element_works_with_and_without_script():
    said = moment(datetime(2026, 1, 31, 12, 5, tzinfo=UTC))
    assert said.startswith('<time datetime="2026-01-31T12:05:00+00:00" title="Jan. 31, 2026, ')
    assert said.endswith("</time>")
    assert " data-ago>" in said
    assert moment(None) == ""
