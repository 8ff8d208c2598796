"""Measure the audit log: the cost of an entry in its transaction, and how fast entries are sealed and verified.

    python -m bench.audit_bench [--entries 100000] [--database URL] [--out FILE]

record 1, 3    one entry, and the three verdicts of a turn, inside an open transaction
turn           a transaction with and without three verdicts: the difference is the cost for a turn, including the commit
has unsealed   the query that every worker runs every second, with that many entries sealed
seal, verify   entries per second, in one process

Without --database, uses SQLite in a temporary directory. For PostgreSQL, pass an empty database.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.gateway.figures import Result, percentile
from bench.installation import CLEARED, prepare
from bench.report import align_columns

ROUNDS = 2_000


def measure(entries: int, database: str) -> Result:
    home = Path(tempfile.mkdtemp(prefix="clawsite-audit-"))
    try:
        for name in [name for name in os.environ if name.startswith(CLEARED)]:
            del os.environ[name]
        os.environ |= {"CLAWSITE_HOME": str(home), "DJANGO_SETTINGS_MODULE": "clawsite.settings"}
        if database:
            os.environ["DATABASE_URL"] = database
        prepare(os.environ)
        import django

        django.setup()
        return _figures(entries)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _figures(entries: int) -> Result:
    from django.db import connection, transaction

    from clawsite.infra.audit import actor
    from clawsite.infra.audit import chain as audit_chain
    from clawsite.infra.audit import log as audit_log
    from clawsite.infra.audit.verify import verify
    from clawsite.infra.models import AuditHead

    def verdicts(count: int) -> list[Any]:
        agent = actor.actor_for_agent("main")
        return [
            audit_log.NewAuditEntry("call.allowed", agent, ("tool", "read"), "7d0c1c3e-6f3d-4f2e-9a54-2a6b8f1f3c11", n, _details(n))
            for n in range(count)
        ]

    def turn(count: int) -> None:
        with transaction.atomic():
            AuditHead.objects.filter(pk=0).update(position=0)  # a transaction has at least one other statement
            audit_log.record_all(verdicts(count))

    result: Result = {"database": connection.vendor}
    with transaction.atomic():
        result["record 1"] = _timed(lambda: audit_log.record_all(verdicts(1)))
        result["record 3"] = _timed(lambda: audit_log.record_all(verdicts(3)))
    result["turn without"], result["turn with 3"] = _timed(lambda: turn(0)), _timed(lambda: turn(3))
    for _ in range(entries // 500):
        audit_log.record_all(verdicts(500))
    started, sealed = time.perf_counter(), 0
    while count := audit_chain.seal_entries():
        sealed += count
    result["seal"] = {"entries": sealed, "per_second": round(sealed / (time.perf_counter() - started))}
    result["has unsealed"] = _timed(audit_chain.has_unsealed, 200)
    before, started = _own_memory(), time.perf_counter()
    report = verify()
    assert report.whole, report.findings
    assert report.sealed == sealed
    result["verify"] = {
        "entries": sealed,
        "per_second": round(sealed / (time.perf_counter() - started)),
        "grew_mb": round((_own_memory() - before) / 1024, 1),
    }
    result["load_average"] = round(os.getloadavg()[0], 2)
    return result


def _own_memory() -> int:
    """Return the memory in KB, without the database file's pages that SQLite maps."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0])


def _details(number: int) -> dict[str, Any]:
    return {"call": f"call_{number:08d}", "for": 12, "layer": "profile", "policy": 7}


def _timed(job: Callable[[], Any], rounds: int = ROUNDS) -> Result:
    times = []
    for number in range(rounds + 20):
        started = time.perf_counter()
        job()
        if number >= 20:
            times.append(time.perf_counter() - started)
    return {name: round((percentile(times, share) or 0) * 1000, 3) for name, share in (("p50", 0.5), ("p95", 0.95))}


def table(result: Result) -> str:
    lines = [("what", "p50, ms", "p95, ms")]
    lines += [
        (name, f"{figures['p50']:g}", f"{figures['p95']:g}")
        for name, figures in result.items()
        if isinstance(figures, dict) and "p50" in figures
    ]
    rates = [
        f"{name}: {result[name]['per_second']:,} per second ({result[name]['entries']:,} entries)" for name in ("seal", "verify")
    ]
    grew = f"verify used {result['verify']['grew_mb']} MB more memory; {result['database']}, load average {result['load_average']}"
    return "\n".join([align_columns(lines), *rates, grew])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench.audit_bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--database", default="", help="DATABASE_URL of an empty PostgreSQL database")
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    options = parser.parse_args()
    result = measure(options.entries, options.database)
    print(table(result))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
