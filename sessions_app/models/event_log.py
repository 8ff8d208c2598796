"""The event log as a whole: which log it is that cursors count in."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class EventLog(models.Model):
    """One row. A cursor means something only in the log it was given out in, which `epoch` names: after a restore there is
    another one, since numbers that clients have seen will be given a second time."""

    ROW = 1

    id = models.PositiveSmallIntegerField(_("ID"), primary_key=True, default=ROW, editable=False)
    epoch = models.CharField(_("epoch"), max_length=16)
    # Raised about once a minute, by nothing but time: a database that has a lower one than was seen is an older one.
    mark = models.BigIntegerField(_("mark"), default=0)

    class Meta:
        verbose_name = _("event log")
        verbose_name_plural = _("event logs")
        constraints = [models.CheckConstraint(condition=Q(id=1), name="one_event_log")]

    def __str__(self) -> str:
        return self.epoch
