"""`claw worker`: run one worker process, which claims queued runs and executes them. Can be stopped or killed at any time."""

import argparse

from clawsite.cli.command import CommandFailed, load_django, read_settings
from clawsite.cli.serving.readiness import require_migrated
from clawsite.infra.observability import logs, tracing
from clawsite.infra.process import child
from clawsite.infra.process.garbage import collection_paused

HELP = "Run one worker process, which executes queued runs (any number on PostgreSQL + Redis)"
EXAMPLES = """examples:
  claw worker                     any number can run; they share the queue
  claw worker --concurrency 16    at most 16 concurrent runs in this process

SIGTERM drains: runs in progress are handed to another worker, which continues after their last stored step.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--concurrency", type=int, metavar="N", help="max concurrent runs (default CLAWSITE_WORKER_CONCURRENCY or 80)"
    )


def run(options: argparse.Namespace) -> int:
    if options.concurrency is not None and options.concurrency < 1:
        raise CommandFailed("--concurrency must be at least 1.", code=2)
    child.end_with_parent()
    settings = read_settings()
    logs.configure("worker", secrets=[settings.SECRET_KEY, settings.GATEWAY_TOKEN], directory=settings.LOG_DIRECTORY)
    with collection_paused():
        load_django()
        import uvloop

        from agents.worker import run_worker
    require_migrated(settings)
    with tracing.export_spans("worker"):
        uvloop.run(run_worker(concurrency=options.concurrency or settings.WORKER_CONCURRENCY))
    return 0
