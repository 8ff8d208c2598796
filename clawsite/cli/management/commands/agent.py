from clawsite.cli import agent
from clawsite.cli.command import django_command

Command = django_command(agent)
