"""A session: its owner and agent, and the heads of its event log and transcript."""

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from clawsite.infra.fulltext.tokenizer import tokenize_title
from sessions_app.keys import OPENAI_CHANNEL, make_shared_key

if TYPE_CHECKING:
    from clawsite.accounts.models import User


class SessionQuerySet(models.QuerySet["Session"]):
    def for_user(self, user: "User") -> "SessionQuerySet":
        """Sessions this account can see; every lookup on behalf of a user starts here."""
        present = self.filter(deleted_at__isnull=True)
        if user.has_perm("accounts.view_any_session"):
            return present
        return present.filter(Q(owner=user) | Q(pk__in=SessionMember.objects.filter(user=user).values("session_id")))


class Session(models.Model):
    """Identified by UUID; `key` is unique per owner, so each user has their own `agent:main:main`."""

    id = models.UUIDField(_("ID"), primary_key=True, default=uuid.uuid4, editable=False)
    # No separate index: both below start with the owner, and SQLite would pick the worse one for counting.
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="claw_sessions", db_index=False, verbose_name=_("owner")
    )
    key = models.CharField(_("session key"), max_length=512)
    agent = models.CharField(
        _("agent"), max_length=64, help_text=_("Agent ID; not a foreign key, because transcripts outlive agents")
    )
    # A reset starts a new generation, and each run belongs to one. The generation ID is `sessionId` on the wire.
    generation = models.PositiveIntegerField(_("generation"), default=1)
    generation_id = models.UUIDField(_("generation ID"), default=uuid.uuid4, unique=True)

    # Both counters only change by UPDATE … RETURNING in the transaction that uses the new values.
    cursor = models.BigIntegerField(_("cursor"), default=0, help_text=_("Last event number in this session"))
    entry_count = models.PositiveIntegerField(_("entries"), default=0, help_text=_("Position of the last transcript entry"))

    title = models.CharField(_("title"), max_length=200, blank=True)
    label = models.CharField(_("label"), max_length=512, blank=True)
    title_words = models.TextField(
        _("title search text"), blank=True, editable=False, help_text=_("Title and label, normalized for search")
    )
    model = models.CharField(_("model"), max_length=200, blank=True, help_text=_("Overrides the agent's model"))
    thinking_level = models.CharField(_("thinking level"), max_length=16, blank=True)
    verbose_level = models.CharField(_("verbose level"), max_length=16, blank=True)
    settings = models.JSONField(_("settings"), default=dict, blank=True, help_text=_("Other patchable fields, by wire name"))
    channel = models.CharField(_("channel"), max_length=32, default="webchat")
    origin = models.JSONField(_("origin"), default=dict, blank=True)

    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children", verbose_name=_("parent session")
    )
    spawn_depth = models.PositiveSmallIntegerField(_("spawn depth"), default=0)
    forked_from = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="forks", verbose_name=_("forked from")
    )

    input_tokens = models.BigIntegerField(_("input tokens"), default=0)
    output_tokens = models.BigIntegerField(_("output tokens"), default=0)
    cost_microusd = models.BigIntegerField(_("cost (millionths of a dollar)"), default=0)

    created_at = models.DateTimeField(_("created"), default=timezone.now)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now)
    deleted_at = models.DateTimeField(_("deleted at"), null=True, blank=True)

    objects = SessionQuerySet.as_manager()

    class Meta:
        verbose_name = _("session")
        verbose_name_plural = _("sessions")
        constraints = [
            UniqueConstraint(fields=["owner", "key"], condition=Q(deleted_at__isnull=True), name="one_session_per_owner_and_key"),
        ]
        indexes = [
            models.Index(fields=["owner", "-updated_at"], condition=Q(deleted_at__isnull=True), name="session_recent_by_owner"),
            models.Index(fields=["updated_at"], condition=Q(channel=OPENAI_CHANNEL), name="session_of_one_request"),
        ]

    def __str__(self) -> str:
        return self.key

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **kwargs: Any) -> None:
        """Keep the search words in sync with the title; a run's first prompt sets both in one statement."""
        if update_fields is None or {"title", "label"} & set(update_fields):
            self.title_words = tokenize_title(self.title, self.label)
            update_fields = update_fields and {*update_fields, "title_words"}
        super().save(*args, update_fields=update_fields, **kwargs)

    def key_for(self, user_pk: int) -> str:
        """Return the key as its owner uses it, or the shared key for other users."""
        return self.key if self.owner_id == user_pk else make_shared_key(self.id)


class SessionMember(models.Model):
    """Another user who can view a session, or also write in it."""

    class Role(models.TextChoices):
        VIEWER = "viewer", _("Viewer")
        WRITER = "writer", _("Writer")

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="members", verbose_name=_("session"))
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", verbose_name=_("user"))
    role = models.CharField(_("role"), max_length=16, choices=Role.choices, default=Role.VIEWER)

    class Meta:
        verbose_name = _("member")
        verbose_name_plural = _("members")
        constraints = [UniqueConstraint(fields=["session", "user"], name="one_membership_per_user")]

    def __str__(self) -> str:
        return f"{self.user} · {self.session}"
