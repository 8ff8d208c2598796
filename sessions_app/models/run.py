"""A run: its states, the allowed transitions, and the guarantees the database gives."""

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils.translation import gettext_lazy as _

from sessions_app.models.session import Session
from sessions_app.run_request import RunRequest

if TYPE_CHECKING:
    from clawsite.accounts.models import User


class RunQuerySet(models.QuerySet["Run"]):
    def for_user(self, user: "User") -> "RunQuerySet":
        return self.filter(session__in=Session.objects.for_user(user))

    def requests(self) -> dict[int, RunRequest]:
        """Read only the requests of these runs, by primary key."""
        return {pk: RunRequest.from_json(stored) for pk, stored in self.values_list("pk", "options")}


class Run(models.Model):
    """One request being worked on. `run_id` is the idempotency key its owner chose."""

    class Status(models.TextChoices):
        ACCEPTED = "accepted", _("Queued")
        RUNNING = "running", _("Running")
        WAITING = "waiting", _("Waiting")  # parked: its RunWait rows say why; holds no worker and no lane slot
        COMPLETED = "completed", _("Completed")
        FAILED = "error", _("Failed")  # the value that clients already know
        ABORTED = "aborted", _("Stopped")

    ENTERED_FROM = {
        Status.RUNNING: [Status.ACCEPTED, Status.WAITING, Status.RUNNING],  # from RUNNING: recovered from a dead worker
        Status.WAITING: [Status.RUNNING],
        Status.COMPLETED: [Status.RUNNING],
        Status.FAILED: [Status.ACCEPTED, Status.RUNNING, Status.WAITING],
        Status.ABORTED: [Status.ACCEPTED, Status.RUNNING, Status.WAITING],
    }
    UNFINISHED = [Status.ACCEPTED, Status.RUNNING, Status.WAITING]
    ENDED = [Status.COMPLETED, Status.FAILED, Status.ABORTED]
    WITHDRAWN = "withdrawn"  # end reason of a run whose message was recalled before it started: hidden as if never sent

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="runs", verbose_name=_("session"))
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="claw_runs", verbose_name=_("owner"))
    generation = models.PositiveIntegerField(_("generation"), default=1)
    run_id = models.CharField(_("run ID"), max_length=200)
    request_hash = models.CharField(
        _("request hash"),
        max_length=64,
        help_text=_("SHA-256 of the request body; a different body with the same idempotency key is a conflict"),
    )
    lane = models.CharField(_("lane"), max_length=16, default="main")
    prompt = models.TextField(_("prompt"), blank=True)
    options = models.JSONField(
        _("options"), default=dict, blank=True, help_text=_("Per-run options: model, thinking, extraSystemPrompt, attachments")
    )

    status = models.CharField(_("status"), max_length=16, choices=Status.choices, default=Status.ACCEPTED)
    reason = models.CharField(
        _("reason"),
        max_length=64,
        blank=True,
        help_text=_("Why the run ended: timeout, poisoned, rpc, a failure kind, …"),
    )
    error = models.TextField(_("error"), blank=True, help_text=_("Shown to the user when the status is error"))
    error_reason = models.JSONField(
        _("error as a code"), null=True, blank=True, editable=False, help_text=_("The error as a code with parameters")
    )

    # Lease times are database time, in seconds since 1970, so that clocks of two hosts are never compared.
    lease_token = models.BigIntegerField(
        _("lease token"),
        default=0,
        help_text=_("Fencing token: incremented by every claim and included in every write by a worker"),
    )
    lease_until = models.FloatField(_("lease until"), null=True, blank=True)
    worker = models.CharField(_("worker"), max_length=64, blank=True)
    ready_at = models.FloatField(
        _("ready since"), null=True, blank=True, help_text=_("When the waiting run became ready to continue")
    )
    abort_requested_at = models.FloatField(_("stop requested"), null=True, blank=True)
    abort_reason = models.CharField(_("stop reason"), max_length=64, blank=True)
    rescues = models.PositiveSmallIntegerField(_("recoveries"), default=0)
    running_seconds = models.FloatField(
        _("running time (s)"), default=0, help_text=_("Running time in earlier leases, excluding waiting time")
    )
    claimed_at = models.FloatField(_("claimed"), null=True, blank=True)
    timeout_seconds = models.FloatField(
        _("timeout (s)"),
        null=True,
        blank=True,
        help_text=_("Requested with the run; leave blank for the agent’s or the server default."),
    )

    seq = models.PositiveIntegerField(_("last event"), default=0, help_text=_("Last event number in this run"))
    steps = models.PositiveIntegerField(_("steps"), default=0, help_text=_("Transcript entries in this run"))

    model = models.CharField(_("model"), max_length=200, blank=True)
    input_tokens = models.BigIntegerField(_("input tokens"), default=0)
    output_tokens = models.BigIntegerField(_("output tokens"), default=0)
    cost_microusd = models.BigIntegerField(_("cost (millionths of a dollar)"), default=0)

    accepted_at = models.DateTimeField(_("accepted"))
    started_at = models.DateTimeField(_("started"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        constraints = [
            UniqueConstraint(fields=["owner", "run_id"], name="one_run_per_owner_and_key"),
            UniqueConstraint(fields=["session"], condition=Q(status__in=["running", "waiting"]), name="one_run_has_the_turn"),
        ]
        indexes = [
            # Small partial indexes: what a claim reads never grows with history.
            models.Index(
                fields=["session", "id"], condition=Q(status__in=["accepted", "running", "waiting"]), name="run_unfinished"
            ),
            models.Index(fields=["lane", "id"], condition=Q(status="accepted"), name="run_queued"),
            models.Index(fields=["lane", "owner"], condition=Q(status="running"), name="run_running"),
            models.Index(fields=["owner", "-id"], name="run_by_owner"),
            models.Index(fields=["session", "id"], condition=Q(steps=0, status__in=["aborted", "error"]), name="run_never_begun"),
            models.Index(fields=["accepted_at"], name="run_by_day"),  # for usage of the last days
        ]

    def __str__(self) -> str:
        return self.run_id

    @property
    def request(self) -> RunRequest:
        """What the run was asked to do; parsed from `options` at every access."""
        return RunRequest.from_json(self.options)
