from clawsite.cli.command import django_command
from clawsite.cli.commands import protocol_docs

Command = django_command(protocol_docs)
