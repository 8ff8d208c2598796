"""Django's `migrate`, but without asking for a new migration when only labels have changed."""

from django.core.management.commands import migrate

from clawsite.infra.autodetector import SchemaAutodetector


class Command(migrate.Command):
    autodetector = SchemaAutodetector
