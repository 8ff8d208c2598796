from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ToolsAppConfig(AppConfig):
    name = "tools_app"
    verbose_name = _("Tools")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import post_migrate

        from tools_app import admin_sources  # noqa: F401  # registers its tables
        from tools_app.policies import install_policies

        post_migrate.connect(install_policies, sender=self)
