from clawsite.cli.command import django_command
from clawsite.cli.commands import status

Command = django_command(status)
