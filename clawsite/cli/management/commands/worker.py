from clawsite.cli import worker
from clawsite.cli.command import django_command

Command = django_command(worker)
