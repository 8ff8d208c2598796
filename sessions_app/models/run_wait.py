"""Something a parked run waits for. The row is deleted once that has happened; the outcome is in the row it refers to."""

from collections import Counter
from collections.abc import Collection

from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils.translation import gettext_lazy as _

from sessions_app.models.run import Run


class RunWaitQuerySet(models.QuerySet["RunWait"]):
    def main_kinds(self, run_pks: Collection[int]) -> dict[int, str]:
        """Return what each of these runs waits for. Runs that only have to be claimed are left out."""
        return self.filter(run__in=run_pks)._main_kinds() if run_pks else {}

    def count_runs(self) -> dict[str, int]:
        """Count parked runs by what they wait for."""
        return dict(Counter(self._main_kinds().values()))

    def _main_kinds(self) -> dict[int, str]:
        """Return the kind of each run's oldest wait; a freeze only if there is nothing else."""
        waits = self.filter(run__status=Run.Status.WAITING).order_by("-pk").values_list("run_id", "kind")
        return dict(sorted(waits, key=lambda wait: wait[1] != RunWait.Kind.FREEZE))  # the last one of each run counts


class RunWait(models.Model):
    class Kind(models.TextChoices):
        """Also the values of `waitingFor` on the wire."""

        APPROVAL = "approval", _("Approval")
        CHILD = "child", _("Another run")
        ANSWER = "answer", _("A user’s answer")
        BUDGET = "budget", _("Budget")
        MODEL = "model", _("Model")
        EXTERNAL = "external", _("External result")
        FREEZE = "frozen", _("Freeze")

    # Kinds that can last for days, because they end only when a person acts.
    DECIDED_BY_PEOPLE = frozenset({Kind.APPROVAL, Kind.ANSWER, Kind.BUDGET, Kind.FREEZE})

    # No index of its own: the unique constraint starts with the run.
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="waits", db_index=False, verbose_name=_("run"))
    kind = models.CharField(_("kind"), max_length=16, choices=Kind.choices)
    reference = models.CharField(_("reference"), max_length=200, help_text=_("ID of the row that the run waits for"))
    alternative = models.PositiveSmallIntegerField(
        _("alternative"), default=0, help_text=_("The run continues when all waits of one alternative have ended.")
    )
    # Database time, in seconds since 1970, like the leases.
    deadline = models.FloatField(_("deadline"), null=True, blank=True)
    created_at = models.DateTimeField(_("since"))

    objects = RunWaitQuerySet.as_manager()

    class Meta:
        verbose_name = _("wait")
        verbose_name_plural = _("waits")
        default_permissions = ()  # shown with its run, and never edited
        constraints = [UniqueConstraint(fields=["run", "kind", "reference"], name="one_wait_per_run_and_reference")]
        indexes = [
            models.Index(fields=["kind", "reference"], name="wait_by_reference"),
            models.Index(fields=["deadline"], condition=Q(deadline__isnull=False), name="wait_by_deadline"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.reference}"
