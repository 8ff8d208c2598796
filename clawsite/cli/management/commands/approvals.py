from clawsite.cli import approvals
from clawsite.cli.command import django_command

Command = django_command(approvals)
