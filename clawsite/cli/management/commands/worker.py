from clawsite.cli.command import django_command
from clawsite.cli.commands import worker

Command = django_command(worker)
