from clawsite.cli import logs
from clawsite.cli.command import django_command

Command = django_command(logs)
