"""Is the audit log as it was written? Walks the chain once and names every row that was changed, removed, added or moved.

Reads in pages, so that a million entries need no more memory than a thousand. Whoever can write to the database can also add an
entry at the end or write the whole chain anew; against the second there are anchors, against the first there is nothing but the
database's own accounts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Literal

from django.db.models import Exists, OuterRef, QuerySet

from clawsite.infra.audit.anchor import Anchor
from clawsite.infra.audit.chain import GENESIS, hash_link
from clawsite.infra.audit.log import compute_digest
from clawsite.infra.models import AuditEntry, AuditHead, AuditSeal

FindingKind = Literal["changed", "missing", "inserted", "reordered", "cut", "rewritten"]

PAGE_SIZE = 1_000
MAX_FINDINGS = 100  # findings listed; a single one is reason enough to investigate
UNKNOWN_HASH = ""  # a hash that can't be compared
SEARCH_DISTANCE = 1_000  # positions around its own to search for a moved seal

TEXT_COLUMNS = ("action", "actor_kind", "actor_id", "actor_name", "subject_kind", "subject_id", "session", "run")


@dataclass(frozen=True, slots=True)
class AuditFinding:
    kind: FindingKind
    words: str
    position: int | None = None
    entry: int | None = None


@dataclass(slots=True)
class VerificationReport:
    """`unsealed` are entries not sealed yet: not an error, but not verified either."""

    position: int
    hash: str
    sealed: int = 0
    unsealed: int = 0
    oldest_unsealed: datetime | None = None
    anchors: int = 0
    findings: list[AuditFinding] = field(default_factory=list)
    more: int = 0  # findings that are not listed

    @property
    def whole(self) -> bool:
        return not self.findings

    def found(self, kind: FindingKind, words: str, position: int | None = None, entry: int | None = None) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(AuditFinding(kind, words, position, entry))
        else:
            self.more += 1


def verify(anchors: Iterable[Anchor] = (), *, last: int | None = None) -> VerificationReport:
    """Verify all sealed entries, or the `last` ones, and those not sealed yet."""
    head = AuditHead.objects.first() or AuditHead(hash=GENESIS)
    report = VerificationReport(head.position, head.hash)
    _ChainWalk(report, 0 if last is None else max(0, head.position - last)).run()
    _check_unsealed(report, head, whole=last is None)
    _check_anchors(report, anchors)
    return report


class _ChainWalk:
    """Along the chain from the place after `start`, which is believed."""

    def __init__(self, report: VerificationReport, start: int) -> None:
        self._report = report
        self._position, self._hash = start, GENESIS
        if start:
            before = AuditSeal.objects.filter(position=start).first()
            self._hash = before.hash if before else UNKNOWN_HASH
        self._strangers: list[tuple[AuditSeal, str]] = []  # seals whose entry says something else: what it says

    def run(self) -> None:
        end = self._report.position
        while page := list(
            AuditSeal.objects.filter(position__gt=self._position, position__lte=end).order_by("position")[:PAGE_SIZE]
        ):
            entries = {row[0]: row for row in _read_contents(AuditEntry.objects.filter(pk__in=[seal.entry_id for seal in page]))}
            for seal in page:
                self._check_seal(seal)
                self._check_entry(seal, entries.get(seal.entry_id))
                self._report.sealed += 1
        if self._position < end:
            self._report.found("cut", f"positions {self._position + 1} to {end} are gone: the end of the chain was cut off", end)
        elif end and self._hash not in (UNKNOWN_HASH, self._report.hash):
            self._report.found("changed", f"the noted head is not the hash of position {end}", end)
        beyond = AuditSeal.objects.filter(position__gt=end).order_by("position").first()
        # Sealed since verification began, unless the head doesn't include it.
        if beyond and not AuditHead.objects.filter(position__gte=beyond.position).exists():
            self._report.found("inserted", f"position {beyond.position} is beyond the noted end", beyond.position, beyond.entry_id)
        self._report_strangers()

    def _check_seal(self, seal: AuditSeal) -> None:
        """That it is the next one, follows the one before, and is about its entry at this place."""
        here, gap = seal.position, seal.position - self._position - 1
        if gap:
            which = f"position {here - 1} is" if gap == 1 else f"positions {self._position + 1} to {here - 1} are"
            self._report.found("missing", f"{which} missing from the chain", here - 1)
        follows = bool(gap) or self._hash in (UNKNOWN_HASH, seal.previous)
        fits = seal.hash == hash_link(seal.previous, here, seal.entry_id, seal.digest)
        if not fits:
            home = _find_original_position(seal)
            if home is None:
                self._report.found("changed", f"the seal at position {here} was changed", here, seal.entry_id)
            else:
                self._report.found("reordered", f"the seal at position {here} belongs at {home}", here, seal.entry_id)
        elif not follows:
            self._report.found("changed", f"position {here} does not follow {here - 1}: one was replaced", here, seal.entry_id)
        # Each fault is told once, and not for all that follows: who stands behind a stranger is not asked whether he follows.
        self._position, self._hash = here, seal.hash if fits else UNKNOWN_HASH

    def _check_entry(self, seal: AuditSeal, row: tuple[Any, ...] | None) -> None:
        if row is None:
            words = f"entry {seal.entry_id}, sealed at position {seal.position}, is missing"
            self._report.found("missing", words, seal.position, seal.entry_id)
        elif (says := _compute_digest(row)) != seal.digest or row[1] != seal.digest:
            if len(self._strangers) < MAX_FINDINGS:
                self._strangers.append((seal, says))
            else:
                self._report.more += 1

    def _report_strangers(self) -> None:
        """Report an entry with the sealed content of another as swapped, not edited."""
        owners = {seal.digest: seal for seal, _says in self._strangers}
        for seal, says in self._strangers:
            owner = owners.get(says)
            if owner and owner.position != seal.position:
                words = f"entry {seal.entry_id} at position {seal.position} has the content of entry {owner.entry_id}"
                self._report.found("reordered", words, seal.position, seal.entry_id)
            else:
                words = f"entry {seal.entry_id} at position {seal.position} was changed after it was sealed"
                self._report.found("changed", words, seal.position, seal.entry_id)


def _check_unsealed(report: VerificationReport, head: AuditHead, *, whole: bool) -> None:
    """Check entries without a seal: new and late ones are pending; any other was inserted."""
    sealed = AuditSeal.objects.filter(entry_id=OuterRef("pk"))
    place = None if whole else head.newest
    while True:
        rows = AuditEntry.objects.filter(~Exists(sealed)).order_by("pk")
        page = list(_read_contents(rows if place is None else rows.filter(pk__gt=place))[:PAGE_SIZE])
        for row in page:
            entry = row[0]
            if entry <= head.newest and not any(first <= entry <= last for first, last, _since in head.gaps):
                report.found("inserted", f"entry {entry} has no seal, but those after it have: it was added later", entry=entry)
                continue
            report.unsealed += 1
            report.oldest_unsealed = min(report.oldest_unsealed or row[2], row[2])
            if _compute_digest(row) != row[1]:
                report.found("changed", f"entry {entry}, not sealed yet, does not have the digest it says", entry=entry)
        if len(page) < PAGE_SIZE:
            return
        place = page[-1][0]


def _check_anchors(report: VerificationReport, anchors: Iterable[Anchor]) -> None:
    given = iter(anchors)
    while some := list(islice(given, PAGE_SIZE)):
        hashes = dict(AuditSeal.objects.filter(position__in=[each.position for each in some]).values_list("position", "hash"))
        for each in some:
            report.anchors += 1
            there = hashes.get(each.position)
            if there is None:
                words = f"position {each.position}, anchored at {each.at}, is gone"
                report.found("cut" if each.position > report.position else "missing", words, each.position)
            elif there != each.hash:
                words = f"position {each.position} is not what was anchored at {each.at}: the chain was written anew"
                report.found("rewritten", words, each.position)


def _read_contents(rows: QuerySet[Any]) -> Any:
    """(id, digest, at, …texts, details)"""
    return rows.values_list("pk", "digest", "at", *TEXT_COLUMNS, "details")


def _compute_digest(row: tuple[Any, ...]) -> str:
    _pk, _said, at, *texts, details = row
    try:
        return compute_digest(at, texts, details)
    except TypeError:  # details that no entry of ours can have
        return ""


def _find_original_position(seal: AuditSeal) -> int | None:
    """The place near by for which the seal was made."""
    return next(_nearby_positions(seal), None)


def _nearby_positions(seal: AuditSeal) -> Iterator[int]:
    for away in range(1, SEARCH_DISTANCE + 1):
        for place in (seal.position - away, seal.position + away):
            if seal.hash == hash_link(seal.previous, place, seal.entry_id, seal.digest):
                yield place
