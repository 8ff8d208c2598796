from clawsite.cli.command import django_command
from clawsite.cli.commands import panic

Command = django_command(panic)
