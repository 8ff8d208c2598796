"""The delivery log for operators, read-only."""

from collections.abc import Iterable

from django.contrib import admin
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clawsite.connectors.webhook.models import HookDelivery
from clawsite.infra.admin.base import PageLink, ReadOnlyAdmin, RelatedRows
from clawsite.infra.admin.display import link_column


@admin.register(HookDelivery)
class WebhookDeliveryAdmin(ReadOnlyAdmin):
    when_empty = gettext_lazy(
        "Webhook deliveries are listed here, including rejected ones and why they were rejected. You can send a sample from a "
        "webhook’s page."
    )
    list_display = [
        "received_at",
        "path",
        "outcome",
        "status_code",
        "address",
        "size",
        link_column("run", gettext_lazy("run")),
        "error",
    ]
    list_filter = ["outcome", "status_code", "path", "received_at"]
    search_fields = ["path", "address", "delivery_id", "body_digest", "run__run_id"]
    list_select_related = ["run", "hook"]
    date_hierarchy = "received_at"
    ordering = ["-received_at"]
    fieldsets = [
        (None, {"fields": [("received_at", "hook", "address"), ("outcome", "status_code", "error"), "run"]}),
        (gettext_lazy("Payload"), {"fields": [("size", "delivery_id"), "body_digest", "signature_digest", "body"]}),
        (gettext_lazy("Result"), {"fields": [("name", "wake_mode", "report_due")]}),
    ]

    def related_links(self, row: HookDelivery) -> Iterable[RelatedRows | PageLink]:
        if row.run_id:
            yield PageLink(_("Run"), "run", row.run_id)
