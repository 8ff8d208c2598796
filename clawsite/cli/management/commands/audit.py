from clawsite.cli import audit
from clawsite.cli.command import django_command

Command = django_command(audit)
