"""Sessions requested without a key by two processes at the same time: one is created, and both get it."""

import threading
from functools import partial

import pytest
from django.db import connection, transaction

from clawsite.infra.errors import Conflict
from clawsite.routing.inbound import open_session
from sessions_app.models import Session
from sessions_app.runs.lifecycle import accept_run
from sessions_app.sessions.forks import fork_session
from sessions_app.sessions.idempotency import find_or_create_session
from sessions_app.sessions.service import inject_message

pytestmark = pytest.mark.dialect

ASKED = {"label": "plans"}


@pytest.fixture
def at_once():
    """Run this in two threads; neither creates a session before both have looked for it."""

    def run(body):
        both_looked, outcomes = threading.Barrier(2), []

        def make_late(make):
            def late(**given):
                if connection.vendor != "sqlite":  # SQLite has one writer: the second looks after the first has committed
                    both_looked.wait(20)
                return make(**given)

            return late

        def one():
            try:
                with transaction.atomic():
                    outcomes.append(body(make_late))
            except Exception as error:
                outcomes.append(error)
            finally:
                connection.close()

        threads = [threading.Thread(target=one) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return outcomes

    return run


def test_concurrent_requests_create_one_session_and_run(user, at_once):
    def body(late):
        make = late(partial(open_session, user, agent="main"))
        session = find_or_create_session(user, "main", "once", ASKED, make)
        return session.pk, accept_run(user=user, session=session, run_id="once", prompt="hello").pk

    outcomes = at_once(body)
    assert outcomes[0] == outcomes[1]
    assert Session.objects.get(owner=user).pk == outcomes[0][0]


def test_concurrent_forks_create_one_session(user, make_session, at_once):
    talk = make_session(user)
    inject_message(user, talk, "one")
    outcomes = at_once(lambda late: find_or_create_session(user, "main", "once", ASKED, late(partial(fork_session, user, talk))).pk)
    assert outcomes[0] == outcomes[1]
    fork = Session.objects.get(owner=user, forked_from=talk)
    assert (fork.pk, fork.entry_count) == (outcomes[0], 1)


def test_user_created_session_with_same_key_conflicts(user, make_session):
    made = find_or_create_session(user, "main", "once", ASKED, partial(open_session, user, agent="main"))
    Session.objects.filter(pk=made.pk).delete()
    make_session(user, made.key)
    with pytest.raises(Conflict):
        find_or_create_session(user, "main", "once", ASKED, partial(open_session, user, agent="main"))
