"""The event log as a whole: its epoch, which cursors refer to."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class EventLog(models.Model):
    """A single row. A cursor is only valid in the log that issued it, identified by `epoch`: a restore starts a new epoch,
    because numbers that clients have seen will be issued again.
    """

    ROW = 1

    id = models.PositiveSmallIntegerField(_("ID"), primary_key=True, default=ROW, editable=False)
    epoch = models.CharField(_("epoch"), max_length=16)
    # Incremented about once a minute. A database with a lower mark than was seen before is an older copy.
    mark = models.BigIntegerField(_("mark"), default=0)

    class Meta:
        verbose_name = _("event log")
        verbose_name_plural = _("event logs")
        constraints = [models.CheckConstraint(condition=Q(id=1), name="one_event_log")]

    def __str__(self) -> str:
        return self.epoch
