"""Check every template: it compiles, the templates it extends and includes exist, and no line is too long.

`make lint` then finds errors in rarely shown pages.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import django
from django.template import TemplateDoesNotExist, TemplateSyntaxError, engines
from django.template.loader import get_template

ROOT = Path(__file__).resolve().parent.parent
MAX_LINE_LENGTH = 132
REFERENCE = re.compile(r"""{% (?:extends|include) ["']([^"']+)["']""")

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clawsite.settings")
sys.path.insert(0, str(ROOT))
django.setup()


def check(path: Path) -> Iterator[str]:
    text = path.read_text()
    try:
        engines["django"].from_string(text)
    except TemplateSyntaxError as error:
        yield f"{path}: {error}"
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > MAX_LINE_LENGTH:
            yield f"{path}:{number}: line has {len(line)} characters, the limit is {MAX_LINE_LENGTH}"
        for name in REFERENCE.findall(line):
            try:
                get_template(name)
            except TemplateDoesNotExist:
                yield f"{path}:{number}: there is no template {name}"


if __name__ == "__main__":
    problems = [problem for path in sorted((ROOT / "templates").rglob("*.*")) for problem in check(path.relative_to(ROOT))]
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(1 if problems else 0)
