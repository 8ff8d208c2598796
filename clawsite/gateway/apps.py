from django.apps import AppConfig


class GatewayConfig(AppConfig):
    name = "clawsite.gateway"
    label = "gateway"
    default_auto_field = "django.db.models.BigAutoField"
