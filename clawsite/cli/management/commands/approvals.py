from clawsite.cli.command import django_command
from clawsite.cli.commands import approvals

Command = django_command(approvals)
