from django.apps import AppConfig
from django.conf import settings
from django.utils.translation import gettext_lazy as _

WEBHOOK_CLEANUP_SECONDS = 600.0  # interval between deletions of old webhook deliveries


class ConnectorsConfig(AppConfig):
    name = "clawsite.connectors"
    label = "connectors"
    verbose_name = _("Webhooks")  # the only connector so far
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from clawsite.infra import periodic

        periodic.register("webhook results", lambda: settings.POLL_SECONDS, _report_webhook_results)
        periodic.register("webhook log cleanup", lambda: WEBHOOK_CLEANUP_SECONDS, _clean_up_webhook_deliveries)


# Imported inside the functions, because these modules load the agents, which most commands do not need.


async def _report_webhook_results() -> None:
    from clawsite.connectors.webhook import outbound

    await outbound.report_results()


async def _clean_up_webhook_deliveries() -> None:
    from clawsite.connectors.webhook import outbound

    await outbound.clean_up_deliveries()
