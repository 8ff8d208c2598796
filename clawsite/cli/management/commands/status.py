from clawsite.cli import status
from clawsite.cli.command import django_command

Command = django_command(status)
