"""The periodic tasks of webhooks."""

from django.conf import settings

from clawsite.infra.periodic import periodic

# Imported inside the functions, because these modules load the agents, which a web process doesn't need to accept clients.


@periodic("post webhook results", on="web", every=lambda: settings.POLL_SECONDS, at_start=False)
async def report_results() -> None:
    from clawsite.connectors.webhook import outbound

    await outbound.report_results()


@periodic("delete old webhook deliveries", on="web", every=600.0, at_start=False)
async def clean_up_deliveries() -> None:
    from clawsite.connectors.webhook import outbound

    await outbound.clean_up_deliveries()
