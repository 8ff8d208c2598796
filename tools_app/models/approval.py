"""Questions to people about one command each, the votes on them, and the grants that came of them."""

import uuid
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils.translation import gettext_lazy as _

from sessions_app.models import Run, Session

if TYPE_CHECKING:
    from clawsite.accounts.models import User


class ApprovalQuerySet(models.QuerySet["Approval"]):
    def for_user(self, user: "User") -> "ApprovalQuerySet":
        """What somebody may see: an approver all, anybody else those of their own sessions."""
        if user.is_active and (user.has_perm("accounts.approve_commands") or user.has_perm("accounts.view_any_session")):
            return self
        return self.filter(Q(session__in=Session.objects.for_user(user)) | Q(session__isnull=True, requester=user))


class Approval(models.Model):
    """A question about exactly one plan. Bound to its hash, answered once, used once."""

    class Status(models.TextChoices):
        PENDING = "pending", _("Waiting")
        APPROVED = "approved", _("Approved")
        DENIED = "denied", _("Denied")
        EXPIRED = "expired", _("Expired")
        VOID = "void", _("Void")  # the run was stopped, the session reset, an executable changed
        USED = "used", _("Used")  # the command was started

    class Decision(models.TextChoices):
        ONCE = "allow-once", _("allowed once")
        FOR = "allow-for", _("allowed for a while")
        ALWAYS = "allow-always", _("allowed always")
        DENY = "deny", _("denied")
        DROP = "drop", _("dropped by who asked")

    ENTERED_FROM = {
        Status.APPROVED: [Status.PENDING],
        Status.DENIED: [Status.PENDING],
        Status.EXPIRED: [Status.PENDING],
        Status.VOID: [Status.PENDING, Status.APPROVED],
        Status.USED: [Status.APPROVED],
    }

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    # A program from outside may ask about a command that it runs itself: then there is neither a session nor a run.
    session = models.ForeignKey(
        Session, null=True, blank=True, on_delete=models.CASCADE, related_name="approvals", verbose_name=_("session")
    )
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.CASCADE, related_name="approvals", verbose_name=_("run"))
    generation = models.PositiveIntegerField(_("generation"), default=1)
    call_id = models.CharField(_("call id"), max_length=200)
    tool = models.CharField(_("tool"), max_length=128)
    agent = models.CharField(_("agent"), max_length=64)
    requester = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", verbose_name=_("asked by"))
    plan = models.JSONField(_("plan"))
    plan_hash = models.CharField(_("plan hash"), max_length=64)
    shown = models.JSONField(_("shown"), help_text=_("The parts of the line, why it was asked, what it may touch"))
    why = models.TextField(_("the agent's words"), blank=True)
    policy_version = models.PositiveIntegerField(_("policy version"), default=0, help_text=_("Evidence, not part of the hash"))

    status = models.CharField(_("status"), max_length=16, choices=Status.choices, default=Status.PENDING)
    needed = models.PositiveSmallIntegerField(_("people needed"), default=1)
    exclude_requester = models.BooleanField(_("not by who asked"), default=False)
    approver_groups = models.JSONField(
        _("who may approve"), default=list, help_text=_("Lists of group ids; somebody must be in one of each list")
    )
    fallback = models.CharField(_("when nobody answers"), max_length=16, default="deny")
    created_at = models.DateTimeField(_("asked"))
    expires_at = models.DateTimeField(_("expires"))
    warned_at = models.DateTimeField(_("warned"), null=True, blank=True)
    decided_at = models.DateTimeField(_("decided"), null=True, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+", verbose_name=_("decided by")
    )
    decision = models.CharField(_("decision"), max_length=16, choices=Decision.choices, blank=True)
    reason = models.CharField(_("reason"), max_length=1000, blank=True, help_text=_("Told to the model"))
    void_reason = models.CharField(_("why it became void"), max_length=1000, blank=True, help_text=_("After it was answered"))
    used_at = models.DateTimeField(_("started"), null=True, blank=True)

    objects = ApprovalQuerySet.as_manager()

    class Meta:
        verbose_name = _("approval")
        verbose_name_plural = _("approvals")
        constraints = [
            # A call whose question became void may be asked about anew, with another plan.
            UniqueConstraint(fields=["run", "call_id"], condition=~Q(status="void"), name="one_living_approval_per_call"),
            UniqueConstraint(
                fields=["requester", "call_id"],
                condition=Q(run__isnull=True, status="pending"),
                name="one_open_question_per_program",
            ),
        ]
        indexes = [
            models.Index(fields=["created_at"], condition=Q(status="pending"), name="approval_queue"),
            models.Index(fields=["-decided_at"], name="approval_history"),
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def is_open(self) -> bool:
        return self.status == self.Status.PENDING

    @property
    def last_reason(self) -> str:
        """Why it stands as it does: what was said with the answer, or why that became void."""
        return self.void_reason or self.reason


class ApprovalVote(models.Model):
    """One of two people who must agree."""

    approval = models.ForeignKey(Approval, on_delete=models.CASCADE, related_name="votes", verbose_name=_("approval"))
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", verbose_name=_("person"))
    at = models.DateTimeField(_("at"))
    wish = models.JSONField(_("wish"), default=dict, help_text=_("For how long and where; the narrower of two counts"))

    class Meta:
        verbose_name = _("vote")
        verbose_name_plural = _("votes")
        constraints = [UniqueConstraint(fields=["approval", "user"], name="one_vote_per_person")]

    def __str__(self) -> str:
        return f"{self.user} · {self.approval}"


class Grant(models.Model):
    """Commands that need no question: an operator's list, or what an approver allowed for a while or always."""

    class Scope(models.TextChoices):
        INSTALLATION = "installation", _("everybody")
        AGENT = "agent", _("agent")
        SESSION = "session", _("session")
        DIRECTORY = "directory", _("directory")

    scope = models.CharField(_("scope"), max_length=16, choices=Scope.choices)
    subject = models.CharField(
        _("subject"), max_length=500, blank=True, help_text=_("Id of the agent or session, or the directory; empty for everybody")
    )
    agent = models.CharField(_("agent"), max_length=64, blank=True, help_text=_("Only for this agent; empty: every agent"))
    entries = models.JSONField(
        _("programs"),
        default=list,
        blank=True,
        help_text=_('List of {"pattern": "/usr/bin/git", "shape": [...]}; without a shape, all harmless arguments'),
    )
    line = models.TextField(_("exact line"), blank=True, help_text=_("Where programs cannot be named narrowly: this line alone"))
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+", verbose_name=_("given by")
    )
    # What is looked at when it is used stands here and not in the question it came from, which may be gone with its session.
    seconded_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+", verbose_name=_("seconded by")
    )
    from_answer = models.BooleanField(
        _("from an answer"), default=False, help_text=_("Counts only while whoever gave it may still give it")
    )
    approval = models.ForeignKey(
        Approval, null=True, blank=True, on_delete=models.SET_NULL, related_name="grants", verbose_name=_("from")
    )
    note = models.CharField(_("note"), max_length=300, blank=True)
    created_at = models.DateTimeField(_("given"))
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    uses_left = models.PositiveIntegerField(_("uses left"), null=True, blank=True)
    uses = models.PositiveIntegerField(_("used"), default=0)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)
    revoked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+", verbose_name=_("revoked by")
    )

    class Meta:
        verbose_name = _("grant")
        verbose_name_plural = _("grants")
        indexes = [models.Index(fields=["scope", "subject"], condition=Q(revoked_at__isnull=True), name="grant_living")]

    def __str__(self) -> str:
        return self.line or ", ".join(entry["pattern"] for entry in self.entries)
