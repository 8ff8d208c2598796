"""One call of one tool: what was asked, who allowed or refused it and by which rule, and how it ended."""

from django.db import models
from django.db.models import UniqueConstraint

from sessions_app.models.run import Run
from sessions_app.models.session import Session


class ToolCall(models.Model):
    class Status(models.TextChoices):
        ALLOWED = "allowed"
        REFUSED = "refused"
        WAITING = "waiting"  # undecided: the run parks on it
        STARTED = "started"  # committed before it begins
        FINISHED = "finished"
        FAILED = "failed"
        INTERRUPTED = "interrupted"  # in flight when its worker died: outcome unknown, never repeated by us

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tool_calls")
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="tool_calls")
    call_id = models.CharField(max_length=200)
    position = models.PositiveIntegerField(help_text="Order in which the model asked, over the whole run")
    name = models.CharField(max_length=128)
    arguments = models.JSONField(default=dict)
    status = models.CharField(max_length=16, choices=Status.choices)
    lease_token = models.BigIntegerField(help_text="The claim under which it was authorised or started")

    # The whole question and answer, so that "why was this refused?" can be asked years later.
    query = models.JSONField(default=dict)
    verdict = models.JSONField(default=dict)
    policy_version = models.PositiveIntegerField(default=0)
    refused_by = models.CharField(max_length=32, blank=True, help_text="Layer that refused it")

    result = models.JSONField(null=True, blank=True)
    is_error = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            UniqueConstraint(fields=["run", "call_id"], name="one_row_per_call"),
            UniqueConstraint(fields=["run", "position"], name="one_call_per_position"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.call_id}"
