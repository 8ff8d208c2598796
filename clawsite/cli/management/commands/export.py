from clawsite.cli.command import django_command
from clawsite.cli.commands import export

Command = django_command(export)
