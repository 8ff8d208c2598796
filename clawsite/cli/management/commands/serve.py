from clawsite.cli.command import django_command
from clawsite.cli.commands import serve

Command = django_command(serve)
