"""Grants: find those that apply to a plan, create, use and revoke them. Rows are never deleted."""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.db import transaction
from django.db.models import F, Q
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import clock
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.audit.actor import Actor
from clawsite.infra.errors import Conflict, Forbidden, InvalidRequest, NotFound
from clawsite.infra.reason_texts import translate_reason
from clawsite.infra.reasons import Reason
from tools_app.core.hidden_characters import has_hidden_characters
from tools_app.exec.gate.allowlist import covers, resolve_entry
from tools_app.exec.gate.verdict import AllowEntry, Analysis
from tools_app.exec.plan import ExecPlan
from tools_app.models import Approval, Grant

ALWAYS_DURATION = dt.timedelta(days=90)  # nothing is allowed forever: whatever is still needed gets requested again
MAX_DURATION = dt.timedelta(hours=8)
MAX_USES = 100


@dataclass(frozen=True, slots=True)
class GrantTerms:
    """How long, how many times and in which scope a command may run again without approval."""

    scope: Literal["session", "agent", "directory"] = "session"
    seconds: int | None = None
    uses: int | None = None

    def checked(self) -> "GrantTerms":
        if self.seconds is None and self.uses is None:
            raise InvalidRequest(_("Specify how long or how many times the command is allowed."))
        if self.seconds is not None and not 60 <= self.seconds <= MAX_DURATION.total_seconds():
            raise InvalidRequest(_("The duration must be between one minute and eight hours."))
        if self.uses is not None and not 1 <= self.uses <= MAX_USES:
            raise InvalidRequest(_("The number of uses must be between 1 and %(most)d.") % {"most": MAX_USES})
        return self

    def intersect(self, other: "GrantTerms") -> "GrantTerms | None":
        """What both approvers allowed. None for a session and a directory, because neither contains the other."""
        scopes = {self.scope, other.scope} - {"agent"}
        if len(scopes) > 1:
            return None
        return GrantTerms(scopes.pop() if scopes else "agent", _min_of(self.seconds, other.seconds), _min_of(self.uses, other.uses))

    def to_json(self) -> dict[str, Any]:
        return {"scope": self.scope, "seconds": self.seconds, "uses": self.uses}


@dataclass(frozen=True, slots=True)
class GrantSet:
    """The grants that apply to a plan."""

    rows: Sequence[Grant]
    plan: ExecPlan

    @property
    def entries(self) -> tuple[AllowEntry, ...]:
        return tuple(entry for row in self.rows for entry in list_entries(row))

    @property
    def find_line_grant(self) -> tuple[int, ...]:
        """The grant for exactly this line: same programs and scripts, no more network and no weaker sandbox than approved."""
        return tuple(row.pk for row in self.rows if row.line and row.line == self.plan.line and self._matches_as_granted(row))[:1]

    def _matches_as_granted(self, row: Grant) -> bool:
        if row.approval is None:
            return False
        seen = ExecPlan.from_json(row.approval.plan)
        same_files = (seen.executables, seen.scripts) == (self.plan.executables, self.plan.scripts)
        same_location = (seen.cwd, seen.access) == (self.plan.cwd, self.plan.access)
        return same_files and same_location and self.plan.network <= seen.network and self.plan.level >= seen.level

    def find_matching(self, analysis: Analysis) -> tuple[int, ...]:
        """Grants that name a program of the line and, if they list arguments, these arguments."""
        return tuple(
            row.pk for row in self.rows if any(covers(entry, each) for entry in list_entries(row) for each in analysis.programs)
        )

    def without_use_limited(self) -> "GrantSet":
        return GrantSet([row for row in self.rows if row.uses_left is None], self.plan)

    def with_use_limited(self) -> "Iterator[tuple[GrantSet, tuple[int, ...]]]":
        """Yield each use-limited grant alone, then all combined; each with the primary keys it would use."""
        free = self.without_use_limited().rows
        counted = [row for row in self.rows if row.uses_left is not None and row.entries]
        for chosen in (*([row] for row in counted), counted if len(counted) > 1 else []):
            if chosen:
                yield GrantSet([*free, *chosen], self.plan), tuple(row.pk for row in chosen)


def list_entries(grant: Grant) -> tuple[AllowEntry, ...]:
    return tuple(
        resolve_entry(AllowEntry(each["pattern"], tuple(each["shape"]) if each.get("shape") is not None else None))
        for each in grant.entries
    )


def is_active_filter() -> Q:
    """Filter for grants that are not revoked, expired or used up."""
    return Q(revoked_at__isnull=True) & (Q(expires_at__isnull=True) | Q(expires_at__gt=clock.now())) & ~Q(uses_left=0)


def find_grants(plan: ExecPlan) -> GrantSet:
    """Return the grants that apply to this plan's agent, session and directory."""
    reach = (
        Q(scope=Grant.Scope.INSTALLATION)
        | Q(scope=Grant.Scope.AGENT, subject=plan.agent)
        | Q(scope=Grant.Scope.SESSION, subject=plan.session)
        | Q(scope=Grant.Scope.DIRECTORY, subject=plan.cwd)
    )
    grants = Grant.objects.filter(reach, Q(agent="") | Q(agent=plan.agent)).filter(is_active_filter())
    return GrantSet(list(grants.select_related("approval", "owner", "seconded_by").order_by("id")), plan)


def create_grant(approval: Approval, *, by: User, terms: GrantTerms | None, seconded_by: User | None = None) -> Grant:
    """Create the grant that an approval gives. Without terms, the agent may always run the command."""
    plan = ExecPlan.from_json(approval.plan)
    entries, line = approval.shown.get("narrow", []), ""
    if not entries:
        if terms is None:
            why = translate_reason(Reason.from_json(approval.shown["notNarrow"]))
            raise InvalidRequest(_("Can’t always allow this command. %(why)s") % {"why": why})
        line = plan.line
    now = clock.now()
    scope, subject = Grant.Scope.AGENT, plan.agent
    expires, uses = now + ALWAYS_DURATION, None
    if terms:
        scope = Grant.Scope(terms.scope)
        subject = {Grant.Scope.SESSION: plan.session, Grant.Scope.AGENT: plan.agent, Grant.Scope.DIRECTORY: plan.cwd}[scope]
        expires = now + (dt.timedelta(seconds=terms.seconds) if terms.seconds else MAX_DURATION)
        uses = terms.uses
    grant = Grant.objects.create(
        scope=scope,
        subject=subject,
        agent=plan.agent,
        entries=entries,
        line=line,
        owner=by,
        seconded_by=seconded_by,
        from_answer=True,
        approval=approval,
        created_at=now,
        expires_at=expires,
        uses_left=uses,
    )
    _record_audit("grant.made", grant, acting.actor_for_user(by), expires=expires.isoformat(), uses=uses)
    return grant


def use_grants(pks: Sequence[int]) -> bool:
    """Count one use of each grant. If one is no longer active, count none and return False."""
    if not pks:
        return True
    alive = list(Grant.objects.select_for_update().filter(pk__in=pks).filter(is_active_filter()).values_list("pk", flat=True))
    if len(alive) != len(set(pks)):
        return False
    Grant.objects.filter(pk__in=alive).update(uses=F("uses") + 1, uses_left=F("uses_left") - 1, last_used_at=clock.now())
    for grant in Grant.objects.filter(pk__in=alive):
        _record_audit("grant.used", grant, acting.actor_for_agent(grant.agent), left=grant.uses_left)
    return True


def add_manually(
    patterns: Sequence[str],
    *,
    by: User,
    scope: str,
    subject: str = "",
    agent: str = "",
    note: str = "",
    expires_at: dt.datetime | None = None,
    uses: int | None = None,
) -> Grant:
    """Add programs to the allowlist. The gate still checks their arguments. Service accounts can't do this."""
    if by.is_service or not by.has_perm("tools_app.add_grant"):
        raise Forbidden(_("You don’t have permission to add grants."))
    for pattern in patterns:
        if error := find_pattern_error(pattern):
            raise InvalidRequest(error)
    if not patterns:
        raise InvalidRequest(_("Enter at least one program."))
    if (scope == Grant.Scope.INSTALLATION) == bool(subject):
        raise InvalidRequest(_("Name an agent, session or directory; leave blank for everyone."))
    grant = Grant.objects.create(
        scope=scope,
        subject=subject,
        agent=agent,
        entries=[{"pattern": pattern, "shape": None} for pattern in patterns],
        owner=by,
        note=note,
        created_at=clock.now(),
        expires_at=expires_at,
        uses_left=uses,
    )
    _record_audit("grant.made", grant, acting.actor_for_user(by), expires=str(expires_at or ""), uses=uses)
    return grant


def find_pattern_error(pattern: str) -> str:
    """Return what is wrong with a program name or pattern; empty if it is valid."""
    params = {"pattern": pattern}
    if not pattern or has_hidden_characters(pattern) or any(character.isspace() for character in pattern):
        return _("“%(pattern)s” is not a valid program name: it is empty or contains spaces or invisible characters.") % params
    if "/" in pattern and not pattern.startswith("/"):
        return _("“%(pattern)s” must be a full path, or a name without a slash.") % params
    if "/" not in pattern and "*" in pattern:
        return _("“%(pattern)s” would match any program. A pattern needs a full path, such as /usr/bin/python3*.") % params
    if pattern.strip("/*") == "":
        return _("“%(pattern)s” would match any program.") % params
    return ""


@transaction.atomic
def revoke_grant(pk: int, *, by: User) -> Grant:
    """Revoke a grant. Running commands continue; the next matching command will need approval."""
    if by.is_service or not (by.has_perm("accounts.approve_commands") or by.has_perm("tools_app.change_grant")):
        raise Forbidden(_("You don’t have permission to revoke grants."))
    changed = Grant.objects.filter(pk=pk, revoked_at__isnull=True).update(revoked_at=clock.now(), revoked_by=by)
    grant = Grant.objects.filter(pk=pk).first()
    if grant is None:
        raise NotFound(_("Grant not found."))
    if not changed:
        raise Conflict(_("This grant is already revoked."))
    _record_audit("grant.revoked", grant, acting.actor_for_user(by))
    return grant


def _record_audit(action: str, grant: Grant, actor: Actor, **details: Any) -> None:
    fields = {"scope": grant.scope, "of": grant.subject, "programs": grant.entries, "line": grant.line}
    audit_log.record(action, actor=actor, subject=("grant", grant.pk), **fields, **details)


def _min_of(one: int | None, other: int | None) -> int | None:
    values = [value for value in (one, other) if value is not None]
    return min(values) if values else None
