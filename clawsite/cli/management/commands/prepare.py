from clawsite.cli import prepare
from clawsite.cli.command import django_command

Command = django_command(prepare)
