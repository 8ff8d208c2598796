"""Approval requests for single commands, the votes on them, and the grants they produce."""

import uuid
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils.translation import gettext_lazy as _

from clawsite.infra.reasons import Reason
from sessions_app.models import Run, Session

if TYPE_CHECKING:
    from clawsite.accounts.models import User


class ApprovalQuerySet(models.QuerySet["Approval"]):
    def for_user(self, user: "User") -> "ApprovalQuerySet":
        """Approvals the user may see: all of them for approvers, otherwise those of the user's own sessions."""
        if user.is_active and (user.has_perm("accounts.approve_commands") or user.has_perm("accounts.view_any_session")):
            return self
        return self.filter(Q(session__in=Session.objects.for_user(user)) | Q(session__isnull=True, requester=user))


class Approval(models.Model):
    """An approval request for exactly one plan: bound to the plan's hash, decided once, used once."""

    class Status(models.TextChoices):
        PENDING = "pending", _("Pending")
        APPROVED = "approved", _("Approved")
        DENIED = "denied", _("Denied")
        EXPIRED = "expired", _("Expired")
        VOID = "void", _("Canceled")  # for example, the run was stopped, the session was reset, or an executable changed
        USED = "used", _("Used")  # the command was started

    class Decision(models.TextChoices):
        ONCE = "allow-once", _("Allowed once")
        FOR = "allow-for", _("Allowed for a limited time")
        ALWAYS = "allow-always", _("Always allowed")
        DENY = "deny", _("Denied")
        DROP = "drop", _("Skipped by requester")

    ENTERED_FROM = {
        Status.APPROVED: [Status.PENDING],
        Status.DENIED: [Status.PENDING],
        Status.EXPIRED: [Status.PENDING],
        Status.VOID: [Status.PENDING, Status.APPROVED],
        Status.USED: [Status.APPROVED],
    }

    id = models.UUIDField(_("ID"), primary_key=True, default=uuid.uuid4, editable=False)
    # An external program may request approval for a command it runs itself; then there is neither a session nor a run.
    session = models.ForeignKey(
        Session, null=True, blank=True, on_delete=models.CASCADE, related_name="approvals", verbose_name=_("session")
    )
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.CASCADE, related_name="approvals", verbose_name=_("run"))
    generation = models.PositiveIntegerField(_("generation"), default=1)
    call_id = models.CharField(_("call ID"), max_length=200)
    tool = models.CharField(_("tool"), max_length=128)
    agent = models.CharField(_("agent"), max_length=64)
    requester = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", verbose_name=_("requested by")
    )
    plan = models.JSONField(_("plan"))
    plan_hash = models.CharField(_("plan hash"), max_length=64)
    shown = models.JSONField(
        _("displayed details"), help_text=_("Parts of the command line, reason for the request, possible effects")
    )
    why = models.TextField(_("agent’s explanation"), blank=True)
    policy_version = models.PositiveIntegerField(_("policy version"), default=0, help_text=_("For evidence; not part of the hash"))

    status = models.CharField(_("status"), max_length=16, choices=Status.choices, default=Status.PENDING)
    needed = models.PositiveSmallIntegerField(_("approvers needed"), default=1)
    exclude_requester = models.BooleanField(_("requester may not approve"), default=False)
    approver_groups = models.JSONField(
        _("approver groups"),
        default=list,
        help_text=_("Lists of group IDs. The approver must be in at least one group of every list."),
    )
    fallback = models.CharField(_("on expiration"), max_length=16, default="deny")
    created_at = models.DateTimeField(_("requested"))
    expires_at = models.DateTimeField(_("expires"))
    warned_at = models.DateTimeField(_("warned at"), null=True, blank=True)
    decided_at = models.DateTimeField(_("decided at"), null=True, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+", verbose_name=_("decided by")
    )
    decision = models.CharField(_("decision"), max_length=16, choices=Decision.choices, blank=True)
    reason = models.CharField(_("reason"), max_length=1000, blank=True, help_text=_("Written by the approver; the agent sees it"))
    system_reason = models.JSONField(
        _("system reason"), null=True, blank=True, help_text=_("Why the system closed it: a code with parameters")
    )
    # Unused. Processes of the previous version still read and write it during an upgrade; a later release drops it.
    void_reason = models.CharField(max_length=1000, blank=True, editable=False, db_default="")
    used_at = models.DateTimeField(_("started"), null=True, blank=True)

    objects = ApprovalQuerySet.as_manager()

    class Meta:
        verbose_name = _("approval request")
        verbose_name_plural = _("approval requests")
        constraints = [
            # After a request is canceled, the same call may be requested again with another plan.
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
    def reason_text(self) -> str:
        """Why it has its current status, in English: what the approver wrote, or why the system closed it."""
        return Reason.from_json(self.system_reason).text if self.system_reason else self.reason


class ApprovalVote(models.Model):
    """An approver's vote, where two approvers are required."""

    approval = models.ForeignKey(Approval, on_delete=models.CASCADE, related_name="votes", verbose_name=_("approval request"))
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", verbose_name=_("approver"))
    at = models.DateTimeField(_("voted at"))
    wish = models.JSONField(
        _("requested grant"), default=dict, help_text=_("Duration and scope; the narrower of the two votes applies")
    )

    class Meta:
        verbose_name = _("vote")
        verbose_name_plural = _("votes")
        constraints = [UniqueConstraint(fields=["approval", "user"], name="one_vote_per_person")]

    def __str__(self) -> str:
        return f"{self.user} · {self.approval}"


class Grant(models.Model):
    """Commands that need no approval: an operator's allowlist entry, or what an approver allowed temporarily or always."""

    class Scope(models.TextChoices):
        INSTALLATION = "installation", _("everyone")
        AGENT = "agent", _("agent")
        SESSION = "session", _("session")
        DIRECTORY = "directory", _("directory")

    scope = models.CharField(_("scope"), max_length=16, choices=Scope.choices)
    subject = models.CharField(
        _("subject"),
        max_length=500,
        blank=True,
        help_text=_("ID of the agent or session, or the directory; leave blank for everyone."),
    )
    agent = models.CharField(_("agent"), max_length=64, blank=True, help_text=_("Only for this agent; leave blank for all agents."))
    entries = models.JSONField(
        _("programs"),
        default=list,
        blank=True,
        help_text=_('List of {"pattern": "/usr/bin/git", "shape": [...]}; without a shape, all safe arguments are allowed.'),
    )
    line = models.TextField(
        _("exact command line"), blank=True, help_text=_("If programs can’t be listed, allow only this exact line.")
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+", verbose_name=_("granted by")
    )
    # Checked on every use, so it is stored here and not read from the source request, which may be deleted with its session.
    seconded_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        verbose_name=_("second approver"),
    )
    from_answer = models.BooleanField(
        _("from an approval"), default=False, help_text=_("Valid only while the approver is still allowed to grant it.")
    )
    approval = models.ForeignKey(
        Approval, null=True, blank=True, on_delete=models.SET_NULL, related_name="grants", verbose_name=_("source request")
    )
    note = models.CharField(_("comment"), max_length=300, blank=True)
    created_at = models.DateTimeField(_("granted at"))
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    uses_left = models.PositiveIntegerField(_("uses left"), null=True, blank=True)
    uses = models.PositiveIntegerField(_("uses"), default=0)
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
