"""Fixtures shared by all suites: a migrated file database with real transactions, users, sessions, running installations."""

import asyncio
import fcntl
import itertools
import os
import threading
from contextlib import contextmanager

import pytest

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment, django_db_blocker, django_db_modify_db_settings):
    """Create the database. pytest-django only does so for tests marked `django_db`, and most tests use `database`.

    It is not dropped: server and files are temporary, and a lingering connection would make the drop fail.
    """
    from django.test.utils import setup_databases

    from tests.harness.database import save_template

    with django_db_blocker.unblock():
        setup_databases(verbosity=0, interactive=False)
        save_template()


@pytest.fixture
def plain_static_files(settings):
    """Use static files without hashes, so that tests don't need collectstatic."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


@pytest.fixture
def database(django_db_setup, django_db_blocker):
    """The test database, with real commits. After the test it is reset, except for the audit log.

    While a stack is running nothing is deleted, because its workers need their rows; the reset happens when it has ended.
    """
    from clawsite.infra import db
    from tests.harness.database import reset_database
    from tests.harness.stack import Stack

    with django_db_blocker.unblock(), _closing_connections():
        yield
        db.close()
        if not Stack.running:
            reset_database()


@contextmanager
def _closing_connections():
    """Close connections opened in this thread: Django opens one for each async test and never closes it."""
    from django.db.backends.signals import connection_created

    opened, here = [], threading.get_ident()

    def connected(connection, **_):
        if threading.get_ident() == here:
            opened.append(connection)

    connection_created.connect(connected)
    try:
        yield
    finally:
        connection_created.disconnect(connected)
        for connection in opened:
            connection.close()


@pytest.fixture
def make_user(database):
    """Create users: make_user() is in the group User, make_user("Operator", "Auditor") in others. All have users.PASSWORD."""
    from tests.harness.users import create_user

    return create_user


@pytest.fixture
def user(make_user):
    return make_user()


@pytest.fixture
def make_session(database):
    """Create sessions: make_session(user) or make_session(user, "agent:main:other")."""
    from sessions_app.sessions.service import ensure_session

    return lambda user, key="": ensure_session(user, key or f"agent:main:test-{next(_numbers)}")


@pytest.fixture
async def bus_messages(database):
    """The bus of this process. Yields all messages published on it."""
    from clawsite.infra import bus
    from clawsite.infra.bus.messages import BusMessage, registered_kinds

    await bus.start()
    messages: list[BusMessage] = []
    subscriptions = [bus.subscribe(kind, messages.append) for kind in registered_kinds()]
    yield messages
    for unsubscribe in subscriptions:
        unsubscribe()
    await bus.stop()


@pytest.fixture
def eventually():
    """Wait for a condition: `await eventually(lambda: …)`."""

    async def wait(condition, *, seconds: float = 20):
        for _ in range(int(seconds / 0.02)):
            result = condition()
            if asyncio.iscoroutine(result):
                result = await result
            if result:
                return result
            await asyncio.sleep(0.02)
        raise AssertionError("condition not met in time")

    return wait


@pytest.fixture
def stack(database):
    """Start installations: `stack()`, or `stack(webs=2, workers=2, env={…})`. They end with the test."""
    from contextlib import ExitStack

    from tests.harness.stack import Stack

    with ExitStack() as started:
        yield lambda **options: started.enter_context(Stack(**options))


def _collect_static_files():
    """All xdist workers share one directory of collected files; the first one fills it."""
    from django.conf import settings
    from django.core.management import call_command

    from clawsite.cli.serving.readiness import static_is_current

    with open(os.path.join(os.environ["CLAWSITE_TEST_HOME"], "static.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not static_is_current(settings):
            call_command("collectstatic", interactive=False, verbosity=0)


@pytest.fixture(scope="module")
def live(django_db_setup, django_db_blocker):
    """One running installation for all tests of a module; each test creates its own users and sessions and leaves them there.

    One web process and one worker on SQLite, two of each on PostgreSQL and Redis. The model is harness/fake_model.py; agent `demo`
    (sessions `agent:demo:…`) answers with the built-in demo model.
    """
    from django.conf import settings

    from agents.models import Agent
    from clawsite.infra import db
    from tests.harness.database import reset_database
    from tests.harness.stack import Stack

    count = 2 if settings.REDIS_URL else 1
    with django_db_blocker.unblock():
        _collect_static_files()
        Agent.objects.get_or_create(slug="demo", defaults={"name": "Demo", "model": "demo/clawsite"})
        # No worker is killed here, and a lease of half a second expires on a busy machine.
        with Stack(webs=count, workers=count, env={"CLAWSITE_LEASE_SECONDS": "10"}) as stack:
            yield stack
        db.close()
        reset_database()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Add the logs of running stacks to failures."""
    outcome = yield
    report = outcome.get_result()
    if report.failed and os.environ.get("DJANGO_SETTINGS_MODULE"):
        from tests.harness.stack import Stack

        for stack in Stack.running:
            report.sections += stack.report()


@pytest.fixture
async def harness(database, user, make_session, settings, monkeypatch):
    """A worker in this process with the fake model."""
    from tests.harness import fake_model
    from tests.harness.worker import WorkerHarness

    settings.LEASE_SECONDS, settings.HEARTBEAT_SECONDS, settings.DRAIN_SECONDS = 5.0, 1.0, 0.2
    settings.SWEEP_SECONDS = settings.POLL_SECONDS = 0.1
    settings.DEFAULT_MODEL = "openai/fake-1"
    async with fake_model.serve() as model:
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        running = WorkerHarness(model, user, make_session(user))
        running.open()
        yield running
        await running.close()
