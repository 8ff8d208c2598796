from clawsite.cli import doctor
from clawsite.cli.command import django_command

Command = django_command(doctor)
