"""The audit log: entries, the seals that chain them, and how far the chain is.

Entries are written by `audit.record` and seals by `audit_chain.seal`, nobody else, and neither is ever changed: not by these
classes, and not in the database itself (`audit_guard`). So nothing here points at other tables: accounts, sessions and runs may
go, what was done stays.
"""

from typing import Any, NoReturn

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class AppendOnly(Exception):
    """The audit log is written by its own functions only, and never changed."""

    def __init__(self) -> None:
        super().__init__("the audit log is append-only: entries are written by audit.record and never changed")


class AppendOnlyQuerySet(models.QuerySet[Any]):
    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise AppendOnly

    update = delete = create = get_or_create = update_or_create = bulk_create = bulk_update = _refuse


class AppendOnlyModel(models.Model):
    objects = AppendOnlyQuerySet.as_manager()

    class Meta:
        abstract = True

    def save(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise AppendOnly

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise AppendOnly


class AuditEntry(AppendOnlyModel):
    """Something that was decided, done or changed. `digest` is over all of it but the id, which the seal binds."""

    class ActorKind(models.TextChoices):
        PERSON = "person", _("user")
        AGENT = "agent", _("agent")
        SERVICE = "service", _("service")
        SYSTEM = "system", _("system")

    id = models.BigAutoField(_("number"), primary_key=True)
    at = models.DateTimeField(_("time"), db_index=True)
    action = models.CharField(_("action"), max_length=40)  # of audit_actions; no choices, or every new one were a migration
    actor_kind = models.CharField(_("actor type"), max_length=8, choices=ActorKind.choices)
    actor_id = models.CharField(_("actor ID"), max_length=64)
    actor_name = models.CharField(_("actor"), max_length=150)
    subject_kind = models.CharField(_("target type"), max_length=40)
    subject_id = models.CharField(_("target ID"), max_length=128)
    session = models.CharField(_("session"), max_length=64)
    run = models.CharField(_("run"), max_length=64)
    details = models.JSONField(_("details"), default=dict)
    digest = models.CharField(_("digest"), max_length=64)

    class Meta:
        verbose_name = _("audit log entry")
        verbose_name_plural = _("audit log entries")
        default_permissions = ("view",)  # nobody can be given what nobody may do
        indexes = [
            models.Index(fields=["action", "at"], name="audit_by_action"),
            models.Index(fields=["actor_id", "at"], name="audit_by_actor"),
            models.Index(fields=["session"], condition=~Q(session=""), name="audit_by_session"),
        ]

    def __str__(self) -> str:
        return f"{self.pk} · {self.action}"


class AuditSeal(AppendOnlyModel):
    """One link of the chain. It repeats its neighbour's hash and its entry's digest, so that a gap is seen and not only felt."""

    position = models.BigIntegerField(_("position"), primary_key=True)
    entry_id = models.BigIntegerField(_("entry"), unique=True)
    digest = models.CharField(_("digest"), max_length=64)
    previous = models.CharField(_("previous hash"), max_length=64)
    hash = models.CharField(_("hash"), max_length=64)
    sealed_at = models.DateTimeField(_("chained"))

    class Meta:
        verbose_name = _("audit chain hash")
        verbose_name_plural = _("audit chain hashes")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.position} · {self.hash[:12]}"


class AuditHead(models.Model):
    """How far the chain is: the one row that a sealer locks. It is a note, not evidence; the seals are."""

    ONLY = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY)
    position = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64)
    newest = models.BigIntegerField(default=0)  # the highest id of an entry that is sealed
    # Ids below it that were not there when it was sealed: [first, last, seconds since 1970]. On PostgreSQL such an entry may be
    # on its way to its commit, so it is waited for; when its time is over, nothing honest can come there any more.
    gaps = models.JSONField(default=list)

    class Meta:
        default_permissions = ()
        verbose_name = verbose_name_plural = _("audit chain head")

    def __str__(self) -> str:
        return f"{self.position} · {self.hash[:12]}"
