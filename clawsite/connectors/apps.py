from importlib import import_module

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

CONNECTORS = ("webhook",)  # each is a package here, with the modules models, admin and web_tasks


class ConnectorsConfig(AppConfig):
    name = "clawsite.connectors"
    label = "connectors"
    verbose_name = _("Webhooks")  # the only connector so far
    default_auto_field = "django.db.models.BigAutoField"


def load_modules(name: str) -> None:
    """Import the module of this name of every connector."""
    for connector in CONNECTORS:
        import_module(f"clawsite.connectors.{connector}.{name}")
