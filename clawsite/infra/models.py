"""The audit log: entries, the seals that chain them, and the head of the chain.

Only `audit.log.record` writes entries and only `audit.chain.seal_entries` writes seals. Neither is ever changed: these classes
and database triggers (`audit.triggers`) prevent it. The tables have no foreign keys, so that entries outlive the accounts,
sessions and runs they mention.
"""

from typing import Any, NoReturn

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class AppendOnly(Exception):
    """Audit log rows can't be changed, and only the audit package writes them."""

    def __init__(self) -> None:
        super().__init__("the audit log is append-only: add entries with clawsite.infra.audit.log.record")


class AppendOnlyQuerySet(models.QuerySet[Any]):
    def _reject(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise AppendOnly

    update = delete = create = get_or_create = update_or_create = bulk_create = bulk_update = _reject


class AppendOnlyModel(models.Model):
    objects = AppendOnlyQuerySet.as_manager()

    class Meta:
        abstract = True

    def save(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise AppendOnly

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise AppendOnly


class AuditEntry(AppendOnlyModel):
    """A decision, action or change. `digest` covers everything except the id, which the seal covers."""

    class ActorKind(models.TextChoices):
        PERSON = "person", _("user")
        AGENT = "agent", _("agent")
        SERVICE = "service", _("service")
        SYSTEM = "system", _("system")

    id = models.BigAutoField(_("number"), primary_key=True)
    at = models.DateTimeField(_("time"), db_index=True)
    action = models.CharField(_("action"), max_length=40)  # no choices: each new action would need a migration
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
        default_permissions = ("view",)  # the log can't be changed, so there are no other permissions
        indexes = [
            models.Index(fields=["action", "at"], name="audit_by_action"),
            models.Index(fields=["actor_id", "at"], name="audit_by_actor"),
            models.Index(fields=["session"], condition=~Q(session=""), name="audit_by_session"),
        ]

    def __str__(self) -> str:
        return f"{self.pk} · {self.action}"


class AuditSeal(AppendOnlyModel):
    """One link of the chain. It repeats the previous hash and the entry's digest, so that a gap can be located."""

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
    """The end of the chain: a single row that is locked while sealing. Only the seals are evidence, not this row."""

    ONLY = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY)
    position = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64)
    newest = models.BigIntegerField(default=0)  # the highest id of a sealed entry
    # Lower ids that did not exist at the time: [first, last, seconds since 1970]. On PostgreSQL such an entry may not be
    # committed yet, so the gap stays open for a while; after the timeout, an entry that appears there counts as inserted.
    gaps = models.JSONField(default=list)

    class Meta:
        default_permissions = ()
        verbose_name = verbose_name_plural = _("audit chain head")

    def __str__(self) -> str:
        return f"{self.position} · {self.hash[:12]}"
