"""Commands that have been started: their worker, output, input and outcome."""

import uuid

from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils.translation import gettext_lazy as _

from sessions_app.models import Run, Session
from tools_app.models.approval import Approval


class Command(models.Model):
    """One started command. Its process runs in one worker and dies with it; everything other processes need is stored here."""

    class Status(models.TextChoices):
        RUNNING = "running", _("Running")
        EXITED = "exited", _("Ended")
        KILLED = "killed", _("Killed")
        TIMED_OUT = "timed_out", _("Timed out")
        LOST = "lost", _("Lost")  # the worker is gone, and the process with it

    id = models.UUIDField(_("ID"), primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(_("name"), max_length=64, help_text=_("The agent’s name for the command, unique within its session"))
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="commands", verbose_name=_("session"))
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="commands", verbose_name=_("run"))
    generation = models.PositiveIntegerField(_("generation"))
    call_id = models.CharField(_("call ID"), max_length=200)
    plan = models.JSONField(_("plan"))
    plan_hash = models.CharField(_("plan hash"), max_length=64)
    approval = models.ForeignKey(
        Approval, null=True, blank=True, on_delete=models.SET_NULL, related_name="commands", verbose_name=_("approval request")
    )
    background = models.BooleanField(_("in the background"), default=False)
    worker = models.CharField(_("worker"), max_length=64)
    identity = models.JSONField(_("process identity"), default=dict, help_text=_("Host, process ID and start time of the process"))
    status = models.CharField(_("status"), max_length=16, choices=Status.choices, default=Status.RUNNING)
    exit_code = models.IntegerField(_("exit code"), null=True, blank=True)
    signal = models.CharField(_("signal"), max_length=16, blank=True)
    reason = models.CharField(_("reason"), max_length=200, blank=True, help_text=_("Why the command was killed"))
    output_end = models.BigIntegerField(_("characters printed"), default=0)
    read_end = models.BigIntegerField(_("characters read"), default=0, help_text=_("How much output the agent has polled"))
    started_at = models.DateTimeField(_("started"))
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)
    cleared_at = models.DateTimeField(
        _("cleared at"), null=True, blank=True, help_text=_("The output is deleted and no longer visible to the agent.")
    )

    class Meta:
        verbose_name = _("command")
        verbose_name_plural = _("commands")
        constraints = [
            UniqueConstraint(fields=["session", "name"], name="one_name_per_command"),
            UniqueConstraint(fields=["run", "call_id"], name="one_command_per_call"),
        ]
        indexes = [
            models.Index(fields=["worker"], condition=Q(status="running"), name="command_running"),
            models.Index(fields=["ended_at"], name="command_by_end"),
        ]

    def __str__(self) -> str:
        return self.name


class CommandOutput(models.Model):
    """A piece of a background command's output. The oldest pieces are deleted when there is too much."""

    command = models.ForeignKey(Command, on_delete=models.CASCADE, related_name="output", verbose_name=_("command"))
    begin = models.BigIntegerField(_("starts at"), help_text=_("Number of characters printed before this part"))
    text = models.TextField(_("text"))

    class Meta:
        verbose_name = _("output")
        verbose_name_plural = _("outputs")
        constraints = [UniqueConstraint(fields=["command", "begin"], name="one_piece_per_place")]

    def __str__(self) -> str:
        return f"{self.command_id}+{self.begin}"


class CommandInput(models.Model):
    """Input for a background command: text, end of input, or a kill. The command's worker handles inputs in order."""

    class Kind(models.TextChoices):
        WRITE = "write", _("Text")
        CLOSE = "close", _("End of input")
        KILL = "kill", _("Kill")

    command = models.ForeignKey(Command, on_delete=models.CASCADE, related_name="input", verbose_name=_("command"))
    kind = models.CharField(_("kind"), max_length=8, choices=Kind.choices)
    data = models.TextField(_("data"), blank=True)
    created_at = models.DateTimeField(_("created"))
    done_at = models.DateTimeField(_("completed at"), null=True, blank=True)
    error = models.CharField(_("error"), max_length=200, blank=True, help_text=_("Why the operation failed"))

    class Meta:
        verbose_name = _("input")
        verbose_name_plural = _("inputs")
        indexes = [models.Index(fields=["command", "id"], condition=Q(done_at__isnull=True), name="input_to_do")]

    def __str__(self) -> str:
        return f"{self.kind} {self.command_id}"
