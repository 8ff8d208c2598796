from clawsite.cli import policy
from clawsite.cli.command import django_command

Command = django_command(policy)
