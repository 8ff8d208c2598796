from clawsite.cli import token
from clawsite.cli.command import django_command

Command = django_command(token)
