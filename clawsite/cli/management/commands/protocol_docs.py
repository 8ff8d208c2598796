from clawsite.cli import protocol_docs
from clawsite.cli.command import django_command

Command = django_command(protocol_docs)
