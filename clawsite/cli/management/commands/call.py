from clawsite.cli import call
from clawsite.cli.command import django_command

Command = django_command(call)
