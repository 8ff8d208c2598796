from clawsite.cli import import_
from clawsite.cli.command import django_command

Command = django_command(import_)
