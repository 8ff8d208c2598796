"""Shared by all commands: running a command, failing with a message, loading settings and Django.

A command is a module in `clawsite.cli.commands` with HELP, EXAMPLES, `add_arguments` and `run`. They are not Django commands,
because Django loads every app before it runs one, which takes 0.4 s and `claw call` doesn't need.
"""

import argparse
import os
import pwd
from importlib import import_module
from types import ModuleType

from clawsite.infra.audit.actor import Actor, acting_as


class CommandFailed(Exception):
    """The command failed. The message is shown as one line and should say what to do next."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def run_command(module: ModuleType, name: str, arguments: list[str], program: str = "claw") -> int:
    """Parse the arguments, run the command and return the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{program} {name}",
        description=module.HELP,
        epilog=module.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    given = parser.parse_args(arguments)
    with acting_as(lambda: host_actor(f"{program} {name}")):
        return int(module.run(given))


def host_actor(command: str) -> Actor:
    """Return the audit actor for the command line: the command and the host account, which has no user in the database."""
    try:
        login = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        login = str(os.getuid())
    return Actor("system", name=f"{command} ({login})")


def read_settings() -> ModuleType:
    """Import the settings as a plain module. They don't import Django, so this takes 10 ms instead of 400."""
    return import_module(os.environ.get("DJANGO_SETTINGS_MODULE", "clawsite.settings"))


def load_django(*, pool: bool = True) -> None:
    """Set up Django for commands that need models.

    Short commands don't use the connection pool: they need one connection, and a pool takes 10 s to report that it has none,
    without saying why.
    """
    import django
    from django.apps import apps

    settings = read_settings()  # first, because Django would hide settings errors behind its own message
    if apps.ready:
        return
    options = settings.DATABASES["default"]["OPTIONS"]
    if not pool and options.pop("pool", None):
        options["connect_timeout"] = 5
    django.setup()
