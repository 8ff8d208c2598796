"""A history says how those runs ended that have no whole answer, and where those belong that never began."""

from django.db import transaction

from sessions_app import queue, runs, selectors, sessions
from sessions_app.models import Run
from sessions_app.run_ends import CHARACTERS


def accept(user, session, *run_ids, prompt=""):
    for run_id in run_ids:
        runs.accept_run(user=user, session=session, run_id=run_id, prompt=prompt or f"say {run_id}")


def begin():
    with transaction.atomic():
        (claimed,) = queue.claim("w1", 5).runs
    return claimed


def end(claimed, to=Run.Status.COMPLETED, reason="stop", error=""):
    with transaction.atomic():
        queue.end(claimed, to, reason, error)


def ends(session, **wish):
    return selectors.history(session, **{"limit": 100, **wish}).ends


def test_failed_and_stopped_runs_are_told_with_their_reasons_and_whole_ones_are_not(user, session_of):
    session = session_of(user)
    accept(user, session, "good", "bad", "stopped")
    end(begin())
    end(begin(), Run.Status.FAILED, "auth", "the key was refused")
    end(begin(), Run.Status.ABORTED, "rpc")
    bad, stopped = ends(session)
    assert (bad["runId"], bad["status"], bad["reason"], bad["error"]) == ("bad", "error", "auth", "the key was refused")
    assert (stopped["runId"], stopped["status"], stopped["reason"]) == ("stopped", "aborted", "rpc")
    assert "text" not in stopped  # it is among the messages


def test_a_run_stopped_in_the_queue_comes_with_its_words_and_its_place(user, session_of):
    session = session_of(user)
    accept(user, session, "first", "second", "third", "fourth")
    for run_id in ("second", "third"):
        runs.request_abort(user=user, session=session, run_id=run_id)
    places = [(end["runId"], end["text"], end["afterRunId"]) for end in ends(session)]
    assert places == [("second", "say second", "first"), ("third", "say third", "second")]
    end(begin())
    end(begin())
    assert [end["afterRunId"] for end in ends(session)] == ["first", "second"]


def test_the_first_of_all_has_nothing_before_it(user, session_of):
    session = session_of(user)
    accept(user, session, "only", prompt="y" * 10_000)
    runs.request_abort(user=user, session=session)
    (only,) = ends(session)
    assert only["afterRunId"] is None
    assert len(only["text"]) == CHARACTERS


def test_each_page_tells_of_its_own_runs(user, session_of):
    session = session_of(user)
    accept(user, session, "a", "b", "c", "d")
    for _ in range(4):
        end(begin(), Run.Status.ABORTED, "rpc")
    newest = selectors.history(session, limit=2)
    assert [end["runId"] for end in newest.ends] == ["c", "d"]
    assert [end["runId"] for end in ends(session, before=newest.before)] == ["a", "b"]


def test_a_reset_leaves_nothing_of_them(user, session_of):
    session = session_of(user)
    accept(user, session, "a")
    session = sessions.reset_session(user, session)
    assert ends(session) == []
