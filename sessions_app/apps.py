from django.apps import AppConfig


class SessionsAppConfig(AppConfig):
    name = "sessions_app"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import post_migrate

        from sessions_app.epoch import install_epoch
        from sessions_app.lanes import install_lanes

        post_migrate.connect(install_lanes, sender=self)
        post_migrate.connect(install_epoch, sender=self)
