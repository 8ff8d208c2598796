"""Django's `makemigrations`, but ignoring changed labels."""

from django.core.management.commands import makemigrations

from clawsite.infra.autodetector import SchemaAutodetector


class Command(makemigrations.Command):
    autodetector = SchemaAutodetector
