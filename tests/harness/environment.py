"""Pytest plugin loaded before Django's settings (`-p tests.harness.environment`): state directory and database of this test run.

CLAWSITE_TEST_DATABASE=postgres runs the suite on PostgreSQL and Redis, anything else on SQLite. Without these programs no test runs
and a message says so. With CLAWSITE_REQUIRE_ALL=1 (CI) a skipped test is a failure.
"""

import atexit
import os
import shutil
import signal
import sys
import tempfile

import pytest

from tests.harness import services

REQUIRE_ALL = os.environ.get("CLAWSITE_REQUIRE_ALL") == "1"
DATABASE = os.environ.get("CLAWSITE_TEST_DATABASE", "sqlite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Children of a background script ignore Ctrl-C, but the commands under test must react to it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["CLAWSITE_TEST_HOME"] = tempfile.mkdtemp(prefix="clawsite-test-")
    atexit.register(shutil.rmtree, os.environ["CLAWSITE_TEST_HOME"], ignore_errors=True)
    if DATABASE == "postgres":
        try:
            os.environ["DATABASE_URL"] = services.start_postgres()
            os.environ["REDIS_URL"] = services.start_redis()
        except services.NotInstalled as missing:
            print(f"Skipping the tests on PostgreSQL and Redis: {missing}", file=sys.stderr)
            sys.exit(1 if REQUIRE_ALL else 0)
    else:
        os.environ.pop("DATABASE_URL", None)
        os.environ.pop("REDIS_URL", None)

worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
os.environ["CLAWSITE_HOME"] = f"{os.environ['CLAWSITE_TEST_HOME']}/{worker}"
os.environ["CLAWSITE_GATEWAY_TOKEN"] = "test-gateway-token"
WEB = ("CLAWSITE_FETCH_ALLOW", "CLAWSITE_SEARCH_PROVIDER", "CLAWSITE_SEARXNG_URL", "BRAVE_API_KEY")
for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "CLAWSITE_MODEL", "CLAWSITE_ORIGINS", *WEB):
    os.environ.pop(name, None)
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # playwright's sync API runs a loop in the test's own thread


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Turn skips into failures with CLAWSITE_REQUIRE_ALL."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and REQUIRE_ALL and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but CLAWSITE_REQUIRE_ALL=1: {report.longrepr}"
