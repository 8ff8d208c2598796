"""A conversation: whose it is, with which agent, and how far its event log and transcript have come."""

import uuid
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils import timezone

if TYPE_CHECKING:
    from clawsite.accounts.models import User


class SessionQuerySet(models.QuerySet["Session"]):
    def for_user(self, user: "User") -> "SessionQuerySet":
        """The sessions this account may see; every look-up on behalf of somebody starts here."""
        present = self.filter(deleted_at__isnull=True)
        if user.has_perm("accounts.view_any_session"):
            return present
        return present.filter(Q(owner=user) | Q(pk__in=SessionMember.objects.filter(user=user).values("session_id")))


class Session(models.Model):
    """Identity is the UUID; `key` is unique per owner, so `agent:main:main` is another session for each user."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # No index of its own: both below begin with the owner, and SQLite would count by the worse one.
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="claw_sessions", db_index=False)
    key = models.CharField(max_length=512)
    agent = models.CharField(max_length=64, help_text="Slug of the agent; no foreign key, transcripts outlive agents")
    # The wire's sessionId: a reset starts a new generation, to which runs are bound.
    generation = models.PositiveIntegerField(default=1)
    generation_id = models.UUIDField(default=uuid.uuid4, unique=True)

    # Both counters move only by UPDATE … RETURNING in the transaction that uses the new values.
    cursor = models.BigIntegerField(default=0, help_text="Last number given to an event of this session")
    entry_count = models.PositiveIntegerField(default=0, help_text="Last position given to a transcript entry")

    title = models.CharField(max_length=200, blank=True)
    label = models.CharField(max_length=512, blank=True)
    model = models.CharField(max_length=200, blank=True, help_text="Overrides the agent's model")
    thinking_level = models.CharField(max_length=16, blank=True)
    verbose_level = models.CharField(max_length=16, blank=True)
    settings = models.JSONField(default=dict, blank=True, help_text="Further patchable fields, by wire name")
    channel = models.CharField(max_length=32, default="webchat")
    origin = models.JSONField(default=dict, blank=True)

    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children")
    spawn_depth = models.PositiveSmallIntegerField(default=0)
    forked_from = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="forks")

    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    cost_microusd = models.BigIntegerField(default=0)

    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)
    deleted_at = models.DateTimeField(null=True, blank=True)

    objects = SessionQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["owner", "key"], condition=Q(deleted_at__isnull=True), name="one_session_per_owner_and_key"),
        ]
        indexes = [
            models.Index(fields=["owner", "-updated_at"], condition=Q(deleted_at__isnull=True), name="session_recent_by_owner"),
        ]

    def __str__(self) -> str:
        return self.key


class SessionMember(models.Model):
    """Somebody else who may see a session, or also write in it."""

    class Role(models.TextChoices):
        VIEWER = "viewer"
        WRITER = "writer"

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER)

    class Meta:
        constraints = [UniqueConstraint(fields=["session", "user"], name="one_membership_per_user")]

    def __str__(self) -> str:
        return f"{self.user} in {self.session}"
