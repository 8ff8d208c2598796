from clawsite.cli.command import django_command
from clawsite.cli.commands import web

Command = django_command(web)
