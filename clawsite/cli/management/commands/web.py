from clawsite.cli import web
from clawsite.cli.command import django_command

Command = django_command(web)
