"""Sessions that programs created for a single request are deleted on time, and not before."""

import datetime as dt

import pytest

from agents import session_cleanup, worker_tasks
from clawsite.infra import clock, db
from clawsite.infra.reasons import Reason
from sessions_app.events.journal import NewEntry
from sessions_app.keys import OPENAI_CHANNEL
from sessions_app.models import Attachment, Event, Run, Session, TranscriptEntry
from sessions_app.runs import queue
from sessions_app.runs.lifecycle import accept_run
from sessions_app.sessions import marks, members
from sessions_app.sessions.service import create_session, insert_first_entries
from tools_app.models import Approval, Command

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


def make(user, name="one", *, days=31, ended=True, channel=OPENAI_CHANNEL):
    """A session with history, a run and events, last used this many days ago."""
    session = create_session(user, key=f"agent:main:{channel}:{name}", channel=channel)
    insert_first_entries(
        session, [NewEntry("message", "user", [{"type": "text", "text": f"m{n}"}], f"m{n}", f"m-{name}-{n}", {}) for n in range(3)]
    )
    accept_run(user=user, session=session, run_id=name, prompt="hi")
    if ended:
        (claimed,) = queue.claim_runs("test", 1).runs
        queue.end_run(claimed, Run.Status.FAILED, "unavailable", Reason.of("it was not there"))
    Session.objects.filter(pk=session.pk).update(updated_at=clock.now() - dt.timedelta(days=days))
    return session


async def keep_house():
    await worker_tasks.delete_stateless_sessions()


def left():
    return set(Session.objects.values_list("key", flat=True))


async def test_expired_session_is_deleted_with_rows_and_directory(user, monkeypatch, settings, tmp_path):
    monkeypatch.setattr(session_cleanup, "BATCH_SIZE", 2)
    session = await db.write(make, user)
    settings.HOME = tmp_path
    for name in (f"session-{session.pk}", "session-of-another"):
        (tmp_path / "sandboxes" / name / "inside").mkdir(parents=True)
    await db.write(
        Attachment.objects.create, owner=user, session=session, name="a", mime_type="text/plain", size=1, sha256="0" * 64
    )
    await keep_house()
    assert not await db.read(left)
    for rows in (Run, Event, TranscriptEntry, Attachment):
        assert not await db.read(rows.objects.exists)
    assert [path.name for path in (tmp_path / "sandboxes").iterdir()] == ["session-of-another"]


async def test_session_with_running_command_is_kept(user):
    session = await db.write(make, user)
    facts = {"name": "x", "generation": 1, "call_id": "c", "plan": {}, "plan_hash": "", "worker": "w", "started_at": clock.now()}
    running = await db.write(Command.objects.create, session=session, run=await db.read(Run.objects.get), **facts)
    await keep_house()
    assert len(await db.read(left)) == 1
    await db.write(Command.objects.filter(pk=running.pk).update, status="exited")
    await keep_house()
    assert not await db.read(left)


@pytest.mark.parametrize("setting", [{"days": 29}, {"channel": "webchat"}, {"ended": False}])
async def test_recent_regular_or_unfinished_session_is_kept(user, setting):
    await db.write(make, user, **setting)
    await keep_house()
    assert len(await db.read(left)) == 1
    assert await db.read(Run.objects.count) == 1


async def test_session_with_approval_request_is_kept(user):
    session = await db.write(make, user)
    now = clock.now()
    facts = {"call_id": "c", "tool": "exec", "agent": "main", "plan": {}, "plan_hash": "", "shown": {}}
    asked = await db.write(
        Approval.objects.create, session=session, requester=user, created_at=now, expires_at=now + dt.timedelta(hours=1), **facts
    )
    await keep_house()
    assert len(await db.read(left)) == 1
    await db.write(Approval.objects.filter(pk=asked.pk).update, status="denied")
    await keep_house()
    assert len(await db.read(left)) == 1
    assert await db.read(Approval.objects.filter(pk=asked.pk).exists)


async def test_pinned_shared_or_parent_session_is_kept(user, make_user):
    pinned, shared, child = [await db.write(make, user, name) for name in ("pinned", "shared", "parent")]
    await db.write(make, user, "nobodys")
    await db.write(marks.mark_session, user, pinned, pinned=True)
    await db.write(members.share, user, shared, make_user().username, "viewer")
    await db.write(Session.objects.filter(pk=(await db.write(make, user, "child", channel="webchat")).pk).update, parent=child)
    await keep_house()
    assert {key.rpartition(":")[2] for key in await db.read(left)} == {"pinned", "shared", "parent", "child"}


async def test_concurrent_message_prevents_deletion(user):
    session = await db.write(make, user)
    before = clock.now() - dt.timedelta(days=30)
    assert await db.read(session_cleanup.list_expired, before) == [session.pk]
    await db.write(accept_run, user=user, session=session, run_id="two", prompt="again")
    assert await db.write(session_cleanup.hide_session, session.pk, before) is False
    assert await db.read(Session.objects.get, pk=session.pk, deleted_at=None)


async def test_interrupted_deletion_is_completed(user):
    session = await db.write(make, user)
    before = clock.now() - dt.timedelta(days=30)
    assert await db.write(session_cleanup.hide_session, session.pk, before)
    await db.write(session_cleanup.delete_batch, session.pk)
    await keep_house()
    assert not await db.read(left)


async def test_zero_days_disables_deletion(user, settings):
    settings.STATELESS_DAYS = 0
    await db.write(make, user, days=4000)
    await keep_house()
    assert len(await db.read(left)) == 1
