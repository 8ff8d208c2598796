"""The `claw` program: Clawsite's commands and Django's. `python manage.py` does the same.

Selects the command and turns environment errors into one line and an exit code: 1 failed, 2 wrong usage or settings,
3 gateway not reachable, 130 interrupted.
"""

import os
import sys
from difflib import get_close_matches
from importlib import import_module

from clawsite.cli import errors
from clawsite.cli.command import CommandFailed, host_actor, read_settings, run_command
from clawsite.infra.audit.actor import acting_as
from clawsite.infra.config.environment import SettingsError

# In the order a new user needs them. The value is the module in `clawsite.cli.commands`.
COMMANDS = {
    "serve": "serve",
    "agent": "agent",
    "status": "status",
    "doctor": "doctor",
    "logs": "logs",
    "call": "call",
    "token": "token",
    "panic": "panic",
    "policy": "policy",
    "approvals": "approvals",
    "exec": "exec",
    "audit": "audit",
    "export": "export",
    "import": "import_",
    "web": "web",
    "worker": "worker",
    "prepare": "prepare",
    "restored": "restored",
    "protocol-docs": "protocol_docs",
}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clawsite.settings")
    os.umask(0o077)  # keep database, notes and workspaces private, even in a directory that others can enter
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # `claw logs … | head`: the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except CommandFailed as failed:
        code = _print_error(str(failed), failed.code)
    except SettingsError as wrong:
        code = _print_error(str(wrong), 2)
    except Exception as error:
        sentence = errors.explain_error(error)
        if sentence is None:
            raise
        code = _print_error(sentence, 1)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command, such as `["doctor", "--json"]`, and return its exit code."""
    name = arguments[0] if arguments else "help"
    if name in COMMANDS:
        return run_command(import_module(f"clawsite.cli.commands.{COMMANDS[name]}"), name, arguments[1:])
    if arguments in ([], ["help"], ["--help"], ["-h"]):
        print(_render_overview())
        return 0
    if name in ("version", "--version"):
        from clawsite.infra.version import version

        print(f"Clawsite {version()}")
        return 0
    if name == "help" and arguments[1] in COMMANDS:
        return run([arguments[1], "--help"])
    read_settings()
    return _run_django(["claw", *arguments])


def _run_django(arguments: list[str]) -> int:
    from django.core.management import BaseCommand, ManagementUtility, get_commands

    class Utility(ManagementUtility):
        """Django's utility, with Clawsite's commands in the list of commands and in suggestions."""

        def main_help_text(self, commands_only: bool = False) -> str:
            text = super().main_help_text(commands_only)
            return "\n".join(sorted({*text.split(), *COMMANDS})) if commands_only else text

        def fetch_command(self, subcommand: str) -> BaseCommand:
            if subcommand in get_commands():
                return super().fetch_command(subcommand)
            near = get_close_matches(subcommand, [*COMMANDS, *get_commands()], 1)
            hint = f" Did you mean {near[0]}?" if near else " `claw help --commands` lists all commands."
            raise CommandFailed(f"unknown command: {subcommand!r}.{hint}", code=2)

    with acting_as(lambda: host_actor(" ".join(arguments[:2]))):
        Utility(arguments).execute()
    return 0


def _render_overview() -> str:
    ours = "\n".join(f"  {name:<15}{import_module(f'clawsite.cli.commands.{module}').HELP}" for name, module in COMMANDS.items())
    return f"""Clawsite: a self-hosted agent gateway.

usage: claw COMMAND [options]        claw COMMAND --help shows options and examples

{ours}

Django's own commands work too: migrate, createsuperuser, changepassword, collectstatic, shell, …
  claw help --commands                 lists all commands"""


def _print_error(message: str, code: int) -> int:
    print(f"claw: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
