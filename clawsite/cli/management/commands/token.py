from clawsite.cli.command import django_command
from clawsite.cli.commands import token

Command = django_command(token)
