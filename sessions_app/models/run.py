"""One request being worked on: its states, the allowed steps between them, and the guarantees the database gives."""

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Q, UniqueConstraint

from sessions_app.models.session import Session

if TYPE_CHECKING:
    from clawsite.accounts.models import User


class RunQuerySet(models.QuerySet["Run"]):
    def for_user(self, user: "User") -> "RunQuerySet":
        return self.filter(session__in=Session.objects.for_user(user))


class Run(models.Model):
    """One request being worked on. `run_id` is the idempotency key its owner chose."""

    class Status(models.TextChoices):
        ACCEPTED = "accepted"
        RUNNING = "running"
        WAITING = "waiting"  # parked on an approval or on children; holds no worker and no lane slot
        COMPLETED = "completed"
        FAILED = "error"  # the word clients already know
        ABORTED = "aborted"

    ENTERED_FROM = {
        Status.RUNNING: [Status.ACCEPTED, Status.WAITING, Status.RUNNING],  # the last: rescue from a dead worker
        Status.WAITING: [Status.RUNNING],
        Status.COMPLETED: [Status.RUNNING],
        Status.FAILED: [Status.ACCEPTED, Status.RUNNING, Status.WAITING],
        Status.ABORTED: [Status.ACCEPTED, Status.RUNNING, Status.WAITING],
    }
    UNFINISHED = [Status.ACCEPTED, Status.RUNNING, Status.WAITING]
    ENDED = [Status.COMPLETED, Status.FAILED, Status.ABORTED]

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="runs")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="claw_runs")
    generation = models.PositiveIntegerField(default=1)
    run_id = models.CharField(max_length=200)
    request_hash = models.CharField(
        max_length=64, help_text="SHA-256 of the request body: another body under the same key is a conflict"
    )
    lane = models.CharField(max_length=16, default="main")
    prompt = models.TextField(blank=True)
    options = models.JSONField(
        default=dict, blank=True, help_text="Per-run wishes: model, thinking, extraSystemPrompt, attachments"
    )

    status = models.CharField(max_length=16, choices=Status.choices, default=Status.ACCEPTED)
    reason = models.CharField(
        max_length=64, blank=True, help_text="Why it ended or waits: timeout, poisoned, rpc, a failure kind, …"
    )
    error = models.TextField(blank=True, help_text="Said to the user when status is error")

    # Times of the lease are database time, in seconds since 1970, so that no two clocks are compared.
    lease_token = models.BigIntegerField(default=0, help_text="Fence: raised by every claim; every write of a worker names it")
    lease_until = models.FloatField(null=True, blank=True)
    worker = models.CharField(max_length=64, blank=True)
    ready_at = models.FloatField(null=True, blank=True, help_text="A waiting run may go on")
    abort_requested_at = models.FloatField(null=True, blank=True)
    abort_reason = models.CharField(max_length=64, blank=True)
    rescues = models.PositiveSmallIntegerField(default=0)
    running_seconds = models.FloatField(default=0, help_text="Time spent running in earlier leases; waiting does not count")
    claimed_at = models.FloatField(null=True, blank=True)
    timeout_seconds = models.FloatField(
        null=True, blank=True, help_text="Asked for with the run; empty: the agent's or the installation's"
    )

    seq = models.PositiveIntegerField(default=0, help_text="Last number given to an event of this run")
    steps = models.PositiveIntegerField(default=0, help_text="Transcript entries of this run")

    model = models.CharField(max_length=200, blank=True)
    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    cost_microusd = models.BigIntegerField(default=0)

    accepted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["owner", "run_id"], name="one_run_per_owner_and_key"),
            UniqueConstraint(fields=["session"], condition=Q(status__in=["running", "waiting"]), name="one_run_has_the_turn"),
        ]
        indexes = [
            # Small partial indexes: what the claim reads never grows with history.
            models.Index(
                fields=["session", "id"], condition=Q(status__in=["accepted", "running", "waiting"]), name="run_unfinished"
            ),
            models.Index(fields=["lane", "id"], condition=Q(status="accepted"), name="run_queued"),
            models.Index(fields=["lane", "owner"], condition=Q(status="running"), name="run_running"),
            models.Index(fields=["owner", "-id"], name="run_by_owner"),
        ]

    def __str__(self) -> str:
        return self.run_id
