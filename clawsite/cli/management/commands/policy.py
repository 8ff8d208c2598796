from clawsite.cli.command import django_command
from clawsite.cli.commands import policy

Command = django_command(policy)
