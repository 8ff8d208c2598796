"""Fixtures shared by all suites: a migrated file database with real transactions, people, sessions."""

import asyncio
import fcntl
import itertools
import os
import threading
from contextlib import contextmanager
from functools import cache

import pytest

PASSWORD = "a-long-test-password"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment, django_db_blocker, django_db_modify_db_settings):
    """Always the whole database: pytest-django's own makes only what `django_db` marks name, and most tests use `database`.

    It is not dropped: server and files are temporary, and a connection that lingers would make the drop an error.
    """
    from django.test.utils import setup_databases

    from tests import reset

    with django_db_blocker.unblock():
        setup_databases(verbosity=0, interactive=False)
        reset.remember()


@pytest.fixture
def plain_static_files(settings):
    """Pages name files as they are: nothing has collected them where only the tests were set up."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


@pytest.fixture
def database(django_db_setup, django_db_blocker):
    """The test database, with real commits. After the test its rows are those of a new one, except for the audit log.

    Beside a running stack nothing is deleted: its workers would miss their lanes. It is done when the stack has ended.
    """
    from clawsite.infra import db
    from tests.reset import reset_database
    from tests.stack import Stack

    with django_db_blocker.unblock(), _closing_connections():
        yield
        db.close()
        if not Stack.running:
            reset_database()


@contextmanager
def _closing_connections():
    """Close what was opened in this thread: Django gives each async test a connection of its own and never closes it."""
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


@cache
def _hashed(_hasher: str) -> str:
    """Once per hasher: the real one takes a quarter of a second on purpose."""
    from django.contrib.auth.hashers import make_password

    return make_password(PASSWORD)


@pytest.fixture
def person(database):
    """Make people: person() is a user of the group User, person("Operator", "Auditor") of others. All have PASSWORD."""
    from django.conf import settings
    from django.contrib.auth.models import Group

    from clawsite.accounts.models import User

    def make(*groups: str, name: str = ""):
        user = User.objects.create(username=name or f"person-{next(_numbers)}", password=_hashed(settings.PASSWORD_HASHERS[0]))
        user.groups.set(Group.objects.filter(name__in=groups or ("User",)))
        return user

    return make


@pytest.fixture
def user(person):
    return person()


@pytest.fixture
def session_of(database):
    """Make sessions: session_of(user) or session_of(user, "agent:main:other")."""
    from sessions_app.sessions.service import ensure_session

    def make(user, key: str = ""):
        return ensure_session(user, key or f"agent:main:test-{next(_numbers)}")

    return make


@pytest.fixture
async def bus_messages(database):
    """The bus of this process, and everything that was published on it."""
    from clawsite.infra import bus

    await bus.start()
    heard: list[dict] = []
    stop = bus.subscribe(heard.append)
    yield heard
    stop()
    await bus.stop()


@pytest.fixture
def eventually():
    """Await a condition instead of sleeping: `await eventually(lambda: …)`."""

    async def wait(condition, *, seconds: float = 20):
        for _ in range(int(seconds / 0.02)):
            result = condition()
            if asyncio.iscoroutine(result):
                result = await result
            if result:
                return result
            await asyncio.sleep(0.02)
        raise AssertionError("it did not happen")

    return wait


@pytest.fixture
def stack(database):
    """Make running installations: `stack()`, or `stack(webs=2, workers=2, env={…})`. They end with the test."""
    from contextlib import ExitStack

    from tests.stack import Stack

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
    """One running installation for all tests of a module; each makes its own people and sessions, and leaves them there.

    As people run it: one web process and one worker on SQLite, two of each on PostgreSQL and Redis. The model is tests/fake_llm.py;
    agent `demo` (sessions `agent:demo:…`) answers with the built-in demo model.
    """
    from django.conf import settings

    from agents.models import Agent
    from clawsite.infra import db
    from tests.reset import reset_database
    from tests.stack import Stack

    count = 2 if settings.REDIS_URL else 1
    with django_db_blocker.unblock():
        _collect_static_files()
        Agent.objects.get_or_create(slug="demo", defaults={"name": "Demo", "model": "demo/clawsite"})
        # Nobody dies here, and a lease of half a second runs out on a busy machine.
        with Stack(webs=count, workers=count, env={"CLAWSITE_LEASE_SECONDS": "10"}) as stack:
            yield stack
        db.close()
        reset_database()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure comes with what the processes of its stack have logged."""
    outcome = yield
    report = outcome.get_result()
    if report.failed and os.environ.get("DJANGO_SETTINGS_MODULE"):
        from tests.stack import Stack

        for stack in Stack.running:
            report.sections += stack.report()


@pytest.fixture
async def workshop(database, user, session_of, settings, monkeypatch):
    """A worker in this process and a model that answers as its prompts say (tests/fake_llm.py)."""
    from tests import fake_llm
    from tests.workshop import Workshop

    settings.LEASE_SECONDS, settings.HEARTBEAT_SECONDS, settings.DRAIN_SECONDS = 5.0, 1.0, 0.2
    settings.SWEEP_SECONDS = settings.POLL_SECONDS = 0.1
    settings.DEFAULT_MODEL = "openai/fake-1"
    async with fake_llm.serve() as model:
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        shop = Workshop(model, user, session_of(user))
        shop.open()
        yield shop
        await shop.close()
