from clawsite.cli.command import django_command
from clawsite.cli.commands import import_

Command = django_command(import_)
