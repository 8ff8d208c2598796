from clawsite.cli import serve
from clawsite.cli.command import django_command

Command = django_command(serve)
