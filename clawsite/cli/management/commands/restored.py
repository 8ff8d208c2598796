from clawsite.cli.command import django_command
from clawsite.cli.commands import restored

Command = django_command(restored)
