from clawsite.cli.command import django_command
from clawsite.cli.commands import prepare

Command = django_command(prepare)
