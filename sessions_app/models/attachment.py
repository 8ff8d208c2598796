"""A file sent, or about to be sent, with a message. Its bytes are stored in the state directory by hash."""

import uuid
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.models.session import Session

if TYPE_CHECKING:
    from clawsite.accounts.models import User


class AttachmentQuerySet(models.QuerySet["Attachment"]):
    def for_user(self, user: "User") -> "AttachmentQuerySet":
        """The user's own uploads, and attachments in sessions they can see."""
        return self.filter(Q(owner=user) | Q(session__in=Session.objects.for_user(user)))


class Attachment(models.Model):
    id = models.UUIDField(_("ID"), primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", verbose_name=_("owner"))
    session = models.ForeignKey(
        Session,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="attachments",
        help_text=_("Blank until the file is sent."),
        verbose_name=_("session"),
    )
    name = models.CharField(_("name"), max_length=200, help_text=_("File name from the sender, with invalid characters removed"))
    mime_type = models.CharField(
        _("file type"), max_length=100, help_text=_("For images, detected from the file content, not taken from the sender")
    )
    is_image = models.BooleanField(_("image"), default=False)
    size = models.PositiveBigIntegerField(_("size"))
    sha256 = models.CharField(_("SHA-256"), max_length=64, db_index=True)
    saved_as = models.CharField(_("saved as"), max_length=300, blank=True, help_text=_("Path of the copy in the agent's workspace"))
    created_at = models.DateTimeField(_("created"), default=timezone.now)

    objects = AttachmentQuerySet.as_manager()

    class Meta:
        verbose_name = _("attachment")
        verbose_name_plural = _("attachments")
        indexes = [models.Index(fields=["created_at"], condition=Q(session__isnull=True), name="attachment_unsent")]

    def __str__(self) -> str:
        return self.name
