from clawsite.cli.command import django_command
from clawsite.cli.commands import logs

Command = django_command(logs)
