"""Bulk actions in the admin: they preview their effect, act only after confirmation, and check permissions."""

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from clawsite.accounts.models import AccessToken, User
from sessions_app.models import Run, Session, SessionMark
from sessions_app.runs import lifecycle

pytestmark = pytest.mark.usefixtures("database", "plain_static_files")

RUNS, SESSIONS, USERS, TOKENS = (
    f"/admin/{name}/" for name in ("sessions_app/run", "sessions_app/session", "accounts/user", "accounts/accesstoken")
)


@pytest.fixture
def plain_static_files(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    yield
    LogEntry.objects.all().delete()


@pytest.fixture
def staff(make_user):
    """A user of these groups in the admin: act(address, action, rows) selects rows, act(…, sure=True) also confirms."""

    def make(*groups: str):
        someone = make_user(*groups)
        someone.is_staff = True
        someone.save()
        client = Client()
        client.force_login(someone)

        def act(address: str, action: str, *rows, sure: bool = False) -> str:
            chosen = {"action": action, "_selected_action": [str(row.pk) for row in rows]} | ({"confirmed": "yes"} if sure else {})
            return client.post(address, chosen, secure=True, follow=True).content.decode()

        act.make_user = someone
        return act

    return make


@pytest.fixture
def run(user, make_session):
    """Create runs of one user, each in a separate session."""

    def make(run_id: str, status: str = "accepted") -> Run:
        accepted = lifecycle.accept_run(user=user, session=make_session(user), run_id=run_id, prompt="a private question")
        Run.objects.filter(pk=accepted.pk).update(status=status)
        return Run.objects.get(pk=accepted.pk)

    return make


def test_aborting_runs_requires_confirmation(staff, run):
    queued, running, ended = run("k1"), run("k2", "running"), run("k3", "completed")
    act = staff("Operator")
    asked = act(RUNS, "abort_runs", queued, running, ended)
    assert "Currently queued; will be stopped immediately and can’t be resumed" in asked
    assert "its worker will stop it" in asked
    assert "Already ended: completed" in asked
    assert "a private question" not in asked
    assert Run.objects.filter(abort_requested_at=None, status__in=["accepted", "running", "completed"]).count() == 3


def test_confirmed_runs_are_aborted(staff, run):
    queued, running, ended = run("k1"), run("k2", "running"), run("k3", "completed")
    said = staff("Operator")(RUNS, "abort_runs", queued, running, ended, sure=True)
    assert "Stop requested for 2 runs; 1 has stopped." in said
    queued.refresh_from_db()
    running.refresh_from_db()
    ended.refresh_from_db()
    assert (queued.status, queued.reason) == ("aborted", "operator")
    assert queued.events.filter(data__phase="end", data__aborted=True).exists()  # clients are notified
    assert (running.status, running.abort_reason) == ("running", "operator")  # the run's worker ends it
    assert running.abort_requested_at
    assert ended.status == "completed"
    assert set(LogEntry.objects.values_list("object_repr", flat=True)) == {"k1", "k2"}


def test_only_selected_run_is_aborted(staff, run, user):
    chosen = run("k1")
    beside = lifecycle.accept_run(user=user, session=chosen.session, run_id="k2", prompt="next")
    staff("Operator")(RUNS, "abort_runs", chosen, sure=True)
    assert Run.objects.get(pk=beside.pk).status == "accepted"


@pytest.mark.parametrize("groups", [("Auditor",), ("Approver",), ("User",)])
def test_non_operators_cannot_abort_runs_or_delete_sessions(staff, run, groups):
    queued = run("k1")
    act = staff(*groups)
    act(RUNS, "abort_runs", queued, sure=True)
    act(SESSIONS, "delete_sessions", queued.session, sure=True)
    act(SESSIONS, "archive_sessions", queued.session, sure=True)
    assert Run.objects.get().status == "accepted"
    assert Session.objects.get(pk=queued.session_id).deleted_at is None
    assert not SessionMark.objects.filter(archived_at__isnull=False).exists()


def test_sessions_are_archived_for_their_owner(staff, run, user):
    session = run("k1").session
    act = staff("Operator")
    assert f"move to {user.username}’s archive" in act(SESSIONS, "archive_sessions", session)
    assert "1 session was archived." in act(SESSIONS, "archive_sessions", session, sure=True)
    assert SessionMark.objects.get(session=session, user=user).archived_at
    assert Run.objects.get().status == "accepted"


def test_deleting_session_aborts_its_runs_and_skips_main(staff, run, user, make_session):
    session, main = run("k1").session, make_session(user, "agent:main:main")
    act = staff("Operator")
    assert "only its owner can reset it" in act(SESSIONS, "delete_sessions", session, main)
    assert "1 session was deleted." in act(SESSIONS, "delete_sessions", session, main, sure=True)
    assert Session.objects.get(pk=session.pk).deleted_at
    assert Session.objects.get(pk=main.pk).deleted_at is None
    assert Run.objects.get(session=session).status == "aborted"


def test_revoked_tokens_stop_working_and_stay_listed(staff, user):
    lost = AccessToken.objects.create(user=user, name="lost", prefix="abc", digest="x", scopes=[])
    act = staff("Operator")
    assert "Stops working immediately" in act(TOKENS, "revoke", lost)
    assert AccessToken.objects.get().revoked_at is None
    assert "1 access token was revoked." in act(TOKENS, "revoke", lost, sure=True)
    assert AccessToken.objects.get().revoked_at
    assert "nothing to do" in act(TOKENS, "revoke", lost, sure=True)


def test_account_can_be_disabled_and_enabled(staff, user):
    act = staff("Operator")
    act(USERS, "deactivate", user, sure=True)
    assert not User.objects.get(pk=user.pk).is_active
    act(USERS, "activate", user, sure=True)
    assert User.objects.get(pk=user.pk).is_active


def test_own_account_and_superusers_cannot_be_disabled(staff, make_user):
    act = staff("Operator")
    root = make_user(name="root")
    root.is_superuser = True
    root.save()
    act(USERS, "deactivate", act.make_user, root, sure=True)
    assert User.objects.filter(is_active=True, pk__in=[act.make_user.pk, root.pk]).count() == 2
