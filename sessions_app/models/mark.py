"""One user's private marks on a session: pinned, archived, read position."""

from django.conf import settings
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils.translation import gettext_lazy as _

from sessions_app.models.session import Session


class SessionMark(models.Model):
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="marks", verbose_name=_("session"))
    # No separate index: those below start with the user.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False, verbose_name=_("user")
    )
    pinned_at = models.DateTimeField(_("pinned"), null=True, blank=True)
    archived_at = models.DateTimeField(_("archived"), null=True, blank=True)
    read_position = models.PositiveIntegerField(
        _("read position"), default=0, help_text=_("Transcript entries up to here have been read")
    )

    class Meta:
        verbose_name = _("session mark")
        verbose_name_plural = _("session marks")
        constraints = [UniqueConstraint(fields=["user", "session"], name="one_mark_per_user_and_session")]
        indexes = [
            # A list shows pinned sessions first and omits archived ones: both are few.
            models.Index(fields=["user", "-pinned_at"], condition=Q(pinned_at__isnull=False), name="mark_pinned"),
            models.Index(fields=["user", "session"], condition=Q(archived_at__isnull=False), name="mark_archived"),
        ]

    def __str__(self) -> str:
        return f"{self.user} · {self.session}"
