from clawsite.cli.command import django_command
from clawsite.cli.commands import call

Command = django_command(call)
