"""The periodic tasks of webhooks."""

from django.conf import settings

from clawsite.infra import periodic

WEBHOOK_CLEANUP_SECONDS = 600.0  # interval between deletions of old webhook deliveries

# Imported inside the functions, because these modules load the agents, which most commands do not need.


async def _report_webhook_results() -> None:
    from clawsite.connectors.webhook import outbound

    await outbound.report_results()


async def _clean_up_webhook_deliveries() -> None:
    from clawsite.connectors.webhook import outbound

    await outbound.clean_up_deliveries()


periodic.register("webhook results", lambda: settings.POLL_SECONDS, _report_webhook_results)
periodic.register("webhook log cleanup", lambda: WEBHOOK_CLEANUP_SECONDS, _clean_up_webhook_deliveries)
