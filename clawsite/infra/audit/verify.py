"""Verify the audit log: walk the chain once and report every row that was changed, removed, added or moved.

Reads in pages, so that a million entries need no more memory than a thousand. An attacker with write access to the database
can also append an entry or rewrite the whole chain. Anchors reveal the second; only database permissions prevent the first.
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
MAX_FINDINGS = 100  # listed in the report; a single one is reason enough to investigate
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
    more: int = 0  # findings beyond MAX_FINDINGS

    @property
    def whole(self) -> bool:
        return not self.findings

    def add(self, kind: FindingKind, text: str, position: int | None = None, entry: int | None = None) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(AuditFinding(kind, text, position, entry))
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
    """Checks the chain after position `start`, whose hash is trusted."""

    def __init__(self, report: VerificationReport, start: int) -> None:
        self._report = report
        self._position, self._hash = start, GENESIS
        if start:
            before = AuditSeal.objects.filter(position=start).first()
            self._hash = before.hash if before else UNKNOWN_HASH
        self._mismatches: list[tuple[AuditSeal, str]] = []  # seals whose entry doesn't match, with the entry's digest

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
            self._report.add("cut", f"positions {self._position + 1} to {end} are missing: the end of the chain was removed", end)
        elif end and self._hash not in (UNKNOWN_HASH, self._report.hash):
            self._report.add("changed", f"the recorded head does not match the hash of position {end}", end)
        beyond = AuditSeal.objects.filter(position__gt=end).order_by("position").first()
        # Sealed since verification began, unless the head doesn't include it.
        if beyond and not AuditHead.objects.filter(position__gte=beyond.position).exists():
            self._report.add("inserted", f"position {beyond.position} is after the recorded head", beyond.position, beyond.entry_id)
        self._report_mismatches()

    def _check_seal(self, seal: AuditSeal) -> None:
        """Check that the seal has the next position, repeats the previous hash, and has the right hash for its entry."""
        here, gap = seal.position, seal.position - self._position - 1
        if gap:
            which = f"position {here - 1} is" if gap == 1 else f"positions {self._position + 1} to {here - 1} are"
            self._report.add("missing", f"{which} missing from the chain", here - 1)
        follows = bool(gap) or self._hash in (UNKNOWN_HASH, seal.previous)
        fits = seal.hash == hash_link(seal.previous, here, seal.entry_id, seal.digest)
        if not fits:
            original = _find_original_position(seal)
            if original is None:
                self._report.add("changed", f"the seal at position {here} was changed", here, seal.entry_id)
            else:
                self._report.add("reordered", f"the seal at position {here} belongs at {original}", here, seal.entry_id)
        elif not follows:
            self._report.add("changed", f"position {here} does not follow {here - 1}: one was replaced", here, seal.entry_id)
        # Report each fault once: after a bad seal, the next one is not compared with its hash.
        self._position, self._hash = here, seal.hash if fits else UNKNOWN_HASH

    def _check_entry(self, seal: AuditSeal, row: tuple[Any, ...] | None) -> None:
        if row is None:
            text = f"entry {seal.entry_id}, sealed at position {seal.position}, is missing"
            self._report.add("missing", text, seal.position, seal.entry_id)
        elif (digest := _compute_digest(row)) != seal.digest or row[1] != seal.digest:
            if len(self._mismatches) < MAX_FINDINGS:
                self._mismatches.append((seal, digest))
            else:
                self._report.more += 1

    def _report_mismatches(self) -> None:
        """Report an entry with the sealed content of another as swapped, not edited."""
        owners = {seal.digest: seal for seal, _digest in self._mismatches}
        for seal, digest in self._mismatches:
            owner = owners.get(digest)
            if owner and owner.position != seal.position:
                text = f"entry {seal.entry_id} at position {seal.position} has the content of entry {owner.entry_id}"
                self._report.add("reordered", text, seal.position, seal.entry_id)
            else:
                text = f"entry {seal.entry_id} at position {seal.position} was changed after it was sealed"
                self._report.add("changed", text, seal.position, seal.entry_id)


def _check_unsealed(report: VerificationReport, head: AuditHead, *, whole: bool) -> None:
    """Check entries without a seal: new and late ones are pending; any other was inserted."""
    sealed = AuditSeal.objects.filter(entry_id=OuterRef("pk"))
    after = None if whole else head.newest
    while True:
        rows = AuditEntry.objects.filter(~Exists(sealed)).order_by("pk")
        page = list(_read_contents(rows if after is None else rows.filter(pk__gt=after))[:PAGE_SIZE])
        for row in page:
            entry = row[0]
            if entry <= head.newest and not any(first <= entry <= last for first, last, _since in head.gaps):
                report.add("inserted", f"entry {entry} has no seal but later entries do: it was added afterwards", entry=entry)
                continue
            report.unsealed += 1
            report.oldest_unsealed = min(report.oldest_unsealed or row[2], row[2])
            if _compute_digest(row) != row[1]:
                report.add("changed", f"entry {entry}, not sealed yet, does not match its digest", entry=entry)
        if len(page) < PAGE_SIZE:
            return
        after = page[-1][0]


def _check_anchors(report: VerificationReport, anchors: Iterable[Anchor]) -> None:
    remaining = iter(anchors)
    while page := list(islice(remaining, PAGE_SIZE)):
        hashes = dict(AuditSeal.objects.filter(position__in=[anchor.position for anchor in page]).values_list("position", "hash"))
        for anchor in page:
            report.anchors += 1
            actual = hashes.get(anchor.position)
            if actual is None:
                text = f"position {anchor.position}, anchored at {anchor.at}, is missing"
                report.add("cut" if anchor.position > report.position else "missing", text, anchor.position)
            elif actual != anchor.hash:
                text = f"position {anchor.position} does not match the anchor from {anchor.at}: the chain was rewritten"
                report.add("rewritten", text, anchor.position)


def _read_contents(rows: QuerySet[Any]) -> Any:
    """Return tuples (id, digest, at, *texts, details)."""
    return rows.values_list("pk", "digest", "at", *TEXT_COLUMNS, "details")


def _compute_digest(row: tuple[Any, ...]) -> str:
    _pk, _stored_digest, at, *texts, details = row
    try:
        return compute_digest(at, texts, details)
    except TypeError:  # details that `record` never writes
        return ""


def _find_original_position(seal: AuditSeal) -> int | None:
    """Return the nearby position for which the seal's hash is right, or None."""
    return next(_nearby_positions(seal), None)


def _nearby_positions(seal: AuditSeal) -> Iterator[int]:
    for distance in range(1, SEARCH_DISTANCE + 1):
        for position in (seal.position - distance, seal.position + distance):
            if seal.hash == hash_link(seal.previous, position, seal.entry_id, seal.digest):
                yield position
