from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class SessionsAppConfig(AppConfig):
    name = "sessions_app"
    verbose_name = _("Sessions")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import post_migrate

        from sessions_app.events.epoch import install_epoch
        from sessions_app.runs.lanes import install_lanes
        from sessions_app.search_index import install_trigger

        post_migrate.connect(install_lanes, sender=self)
        post_migrate.connect(install_trigger, sender=self)
        post_migrate.connect(install_epoch, sender=self)
