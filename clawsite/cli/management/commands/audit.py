from clawsite.cli.command import django_command
from clawsite.cli.commands import audit

Command = django_command(audit)
