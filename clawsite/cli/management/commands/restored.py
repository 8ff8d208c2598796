from clawsite.cli import restored
from clawsite.cli.command import django_command

Command = django_command(restored)
