from clawsite.cli.command import django_command
from clawsite.cli.commands import agent

Command = django_command(agent)
