from clawsite.cli import export
from clawsite.cli.command import django_command

Command = django_command(export)
