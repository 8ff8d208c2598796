from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class InfraConfig(AppConfig):
    name = "clawsite.infra"
    label = "infra"
    verbose_name = _("Audit")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import post_migrate
        from django.utils.module_loading import autodiscover_modules

        from clawsite.infra.audit import triggers as audit_triggers

        autodiscover_modules("reasons")
        post_migrate.connect(audit_triggers.install_triggers, sender=self)
