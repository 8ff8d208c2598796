"""Django's `migrate`, which doesn't ask for a migration when only labels have changed."""

from django.core.management.commands import migrate

from clawsite.infra.autodetector import SchemaAutodetector


class Command(migrate.Command):
    autodetector = SchemaAutodetector
