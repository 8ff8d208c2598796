"""What a process does not load at its start, because few installations need it and everybody would wait for it."""

import subprocess
import sys

LATER = ("ninja", "litellm", "mcp", "opentelemetry.sdk", "opentelemetry.exporter", "schemathesis")
LOADED = """
import sys
import {module}
print(*sys.modules, sep="\\n")
"""


def loaded_with(module: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", LOADED.format(module=module)], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_web_process_start_does_not_import_optional_modules():
    seen = loaded_with("clawsite.asgi, clawsite.urls, clawsite.api.rest.mount")
    assert "clawsite.api.rest.mount" in seen
    assert [name for name in LATER if name in seen] == []
