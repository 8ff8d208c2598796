from clawsite.cli.command import django_command
from clawsite.cli.commands import doctor

Command = django_command(doctor)
