"""Compile every template, so that `make lint` finds syntax errors in rarely shown pages."""

import os
import sys
from pathlib import Path

import django
from django.template import TemplateSyntaxError, engines

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clawsite.settings")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
django.setup()

from django.conf import settings  # noqa: E402  # after setup()

failed = 0
for folder in settings.TEMPLATES[0]["DIRS"]:
    for path in sorted(Path(folder).rglob("*.*")):
        try:
            engines["django"].from_string(path.read_text())
        except TemplateSyntaxError as error:
            failed += 1
            print(f"{path}: {error}")
sys.exit(1 if failed else 0)
