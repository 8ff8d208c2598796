"""What was sent to a webhook and what became of it. The row of an accepted one is also what keeps it from acting twice."""

from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from clawsite.gateway.models.hook import Hook
from sessions_app.models import Run


class HookDelivery(models.Model):
    class Outcome(models.TextChoices):
        ACCEPTED = "accepted", pgettext_lazy("outcome of a delivery", "accepted")
        DUPLICATE = "duplicate", _("duplicate")
        UNAUTHORIZED = "unauthorized", _("not authenticated")
        REFUSED = "refused", _("rejected")

    hook = models.ForeignKey(
        Hook, null=True, blank=True, on_delete=models.SET_NULL, related_name="deliveries", verbose_name=_("webhook")
    )
    path = models.CharField(_("path"), max_length=64)
    received_at = models.DateTimeField(_("received"))
    address = models.CharField(_("address"), max_length=64)
    outcome = models.CharField(_("outcome"), max_length=16, choices=Outcome.choices)
    status_code = models.PositiveSmallIntegerField(_("status"))
    error = models.CharField(_("rejection reason"), max_length=500, blank=True)
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", verbose_name=_("run"))

    size = models.PositiveIntegerField(_("bytes"), default=0)
    body_digest = models.CharField(_("body digest"), max_length=64, blank=True)
    body = models.TextField(_("body"), blank=True, help_text=_("Stored only if the webhook keeps bodies, and truncated"))
    # Only of what was accepted, so that what was refused may be sent again. Null, because no two nulls are the same.
    delivery_id = models.CharField(_("delivery ID"), max_length=200, null=True, blank=True)  # noqa: DJ001  # as said
    signature_digest = models.CharField(_("signed content digest"), max_length=64, null=True, blank=True)  # noqa: DJ001  # as said

    name = models.CharField(_("name"), max_length=80, blank=True, help_text=_("Name of the result"))
    wake_mode = models.CharField(_("when to post the result"), max_length=16, blank=True)
    report_due = models.BooleanField(_("result not posted yet"), default=False)

    class Meta:
        verbose_name = _("webhook delivery")
        verbose_name_plural = _("webhook deliveries")
        constraints = [
            UniqueConstraint(fields=["hook", "delivery_id"], name="a_delivery_acts_once"),
            UniqueConstraint(fields=["hook", "signature_digest"], name="a_signature_acts_once"),
        ]
        indexes = [
            models.Index(fields=["received_at"], name="hook_delivery_by_time"),
            models.Index(fields=["address", "received_at"], condition=Q(outcome="unauthorized"), name="hook_delivery_unproven"),
            models.Index(fields=["id"], condition=Q(report_due=True), name="hook_delivery_untold"),
        ]

    def __str__(self) -> str:
        return f"/hooks/{self.path} · {self.pk}"
