"""The text `claw serve` prints when it is ready."""

import os
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

DEMO_PREFIX = "demo/"


def render_banner(settings: ModuleType, first_steps: dict[str, Any]) -> str:
    address = settings.ALLOWED_ORIGINS[0]
    lines = [f"Clawsite {first_steps['version']} is running at {address}/", ""]
    if first_steps["link"]:
        lines += [
            "  Your first sign-in (works once, for 24 hours; makes you the administrator):",
            f"  {first_steps['link']}",
            "",
        ]
    else:
        lines.append(
            _format_row("Sign in", f"as {' or '.join(first_steps['people'])}" if first_steps["people"] else "with your account")
        )
    lines += [
        _format_row("Model", _model_line(first_steps["model"])),
        _format_row("State", str(settings.HOME)),
        _format_row("Try", f'{claw_command()} agent "What can you do?"     in another terminal'),
        _format_row("", f"{claw_command()} status, doctor, logs, --help"),
        _format_row("Stop", "Ctrl-C; runs in progress continue at the next start"),
        "",
    ]
    return "\n".join(lines)


def claw_command() -> str:
    """Return the command to type for `claw` in this environment."""
    if shutil.which("claw"):
        return "claw"
    script = Path(sys.executable).parent / "claw"
    return os.path.relpath(script) if script.exists() else "python manage.py"


def _format_row(label: str, value: str) -> str:
    return f"  {label:<10}{value}"


def _model_line(name: str) -> str:
    if name.startswith(DEMO_PREFIX):
        return f"{name}: built in, needs no key. For a real one set CLAWSITE_MODEL and its key, e.g. OPENAI_API_KEY"
    return name
