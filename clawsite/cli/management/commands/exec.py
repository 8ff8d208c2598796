from clawsite.cli.command import django_command
from clawsite.cli.commands import exec as module

Command = django_command(module)
