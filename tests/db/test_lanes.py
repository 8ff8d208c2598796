"""Lanes with long waits are logged, but not on every check."""

import datetime as dt
import logging

import pytest

from clawsite.infra import clock
from sessions_app.models import Run
from sessions_app.runs import lanes, lifecycle

pytestmark = pytest.mark.dialect


@pytest.fixture
def boot(monkeypatch):
    """Seconds since boot, set by the test."""
    now = {"seconds": 1000.0}
    monkeypatch.setattr(clock, "boot_time", lambda: now["seconds"])
    return now


@pytest.fixture
def told(caplog):
    """Return what was logged since the last call."""
    caplog.set_level(logging.INFO, logger="sessions_app.runs.lanes")

    def look(late_lanes):
        caplog.clear()
        late_lanes.check()
        return [record.getMessage() for record in caplog.records]

    return look


@pytest.fixture
def waiting(user, make_session):
    """A run that has waited for an hour."""
    accepted = lifecycle.accept_run(user=user, session=make_session(user), run_id="k1", prompt="hi")
    Run.objects.filter(pk=accepted.pk).update(accepted_at=clock.now() - dt.timedelta(hours=1))
    return accepted.pk


def test_delayed_lane_warning_repeats_and_recovery_is_logged(waiting, boot, told):
    late = lanes.LaneDelayMonitor()
    (first,) = told(late)
    assert first.startswith("lane main: oldest of 1 queued runs has waited 3600")
    boot["seconds"] += lanes.REPEAT_WARNING_SECONDS - 1
    assert told(late) == []
    boot["seconds"] += 1
    assert len(told(late)) == 1
    Run.objects.filter(pk=waiting).update(status=Run.Status.ABORTED)
    assert told(late) == ["lane main is no longer delayed"]
    assert told(late) == []
    Run.objects.filter(pk=waiting).update(status=Run.Status.ACCEPTED)
    assert len(told(late)) == 1


def test_each_worker_tracks_its_own_lane_warnings(waiting, boot, told):
    assert len(told(lanes.LaneDelayMonitor())) == 1
    assert len(told(lanes.LaneDelayMonitor())) == 1
