from clawsite.cli import exec as module
from clawsite.cli.command import django_command

Command = django_command(module)
