from clawsite.cli import panic
from clawsite.cli.command import django_command

Command = django_command(panic)
