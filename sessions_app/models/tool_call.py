"""One tool call: its arguments, who allowed or denied it and by which rule, and how it ended."""

from django.db import models
from django.db.models import UniqueConstraint
from django.utils.translation import gettext_lazy as _

from sessions_app.models.run import Run
from sessions_app.models.session import Session


class ToolCall(models.Model):
    class Status(models.TextChoices):
        ALLOWED = "allowed", _("Allowed")
        REFUSED = "refused", _("Denied")
        WAITING = "waiting", _("Waiting")  # the run is parked on it: it is undecided or, with `deferred`, its result comes later
        STARTED = "started", _("Started")  # committed before it starts
        FINISHED = "finished", _("Finished")
        FAILED = "failed", _("Failed")
        HANDED_OVER = "handed_over", _("Handed to client")  # a tool of the client, which runs it and sends the result
        INTERRUPTED = "interrupted", _("Interrupted")  # running when its worker died: outcome unknown, never repeated by us

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tool_calls", verbose_name=_("run"))
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="tool_calls", verbose_name=_("session"))
    call_id = models.CharField(_("call ID"), max_length=200)
    position = models.PositiveIntegerField(_("position"), help_text=_("Position of this call among all tool calls in the run"))
    name = models.CharField(_("name"), max_length=128)
    arguments = models.JSONField(_("arguments"), default=dict)
    status = models.CharField(_("status"), max_length=16, choices=Status.choices)
    lease_token = models.BigIntegerField(_("lease token"), help_text=_("Lease under which the call was authorized or started"))

    # The complete query and result, so that a denial can be explained years later.
    query = models.JSONField(_("query"), default=dict)
    verdict = models.JSONField(_("policy result"), default=dict)
    policy_version = models.PositiveIntegerField(_("policy version"), default=0)
    refused_by = models.CharField(_("denied by"), max_length=32, blank=True, help_text=_("Policy layer that denied the call"))

    deferred = models.JSONField(
        _("deferred"), null=True, blank=True, help_text=_("Kind and ID of the row that the result depends on, and the deadline")
    )
    result = models.JSONField(_("result"), null=True, blank=True)
    is_error = models.BooleanField(_("error"), default=False)
    created_at = models.DateTimeField(_("created"))
    started_at = models.DateTimeField(_("started"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    class Meta:
        verbose_name = _("tool call")
        verbose_name_plural = _("tool calls")
        constraints = [
            UniqueConstraint(fields=["run", "call_id"], name="one_row_per_call"),
            UniqueConstraint(fields=["run", "position"], name="one_call_per_position"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.call_id}"
