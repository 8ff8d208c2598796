"""Periodic tasks of workers for the audit log."""

import asyncio
from pathlib import Path

from django.conf import settings

from clawsite.infra import db
from clawsite.infra.audit import anchor, chain
from clawsite.infra.periodic import BATCH_PAUSE_SECONDS, periodic

ANCHOR_CHECK_SECONDS = 60.0


@periodic("seal audit log", on="worker", every=lambda: settings.AUDIT_SEAL_SECONDS, at_end=True)
async def seal_audit_log() -> None:
    """Seal new audit log entries. All workers run this every second; one does the work, the others find nothing left."""
    while await db.read(chain.has_unsealed):
        if await db.write(chain.seal_entries, alone=True) < chain.BATCH_SIZE:
            return
        await asyncio.sleep(BATCH_PAUSE_SECONDS)


@periodic("anchor audit log", on="worker", every=ANCHOR_CHECK_SECONDS)
async def anchor_audit_log() -> None:
    if settings.AUDIT_ANCHOR:
        await db.read(anchor.append_anchor, Path(settings.AUDIT_ANCHOR), only_if_due=True)
