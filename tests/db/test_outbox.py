import pytest

from sessions_app.models import Outbox
from sessions_app.runs import lifecycle, outbox

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


@pytest.fixture
def reply(user, make_session):
    session = make_session(user)
    accepted = lifecycle.accept_run(user=user, session=session, run_id="k1", prompt="hi")

    def make(channel="telegram"):
        outbox.enqueue(run_pk=accepted.pk, session_id=session.id, channel=channel, payloads=[{"text": "one"}, {"text": "two"}])

    return make


def test_reply_enqueued_twice_is_stored_once(reply):
    reply()
    reply()
    assert [row.payload["text"] for row in Outbox.objects.order_by("part")] == ["one", "two"]


def test_webchat_reply_is_not_enqueued(reply):
    reply("webchat")
    assert not Outbox.objects.exists()


def test_reply_is_leased_to_one_deliverer(reply):
    reply()
    first = outbox.lease_pending("telegram")
    assert outbox.lease_pending("telegram") == []
    assert [outbox.mark_delivered(row) for row in first] == [True, True]
    assert outbox.mark_delivered(first[0]) is False


def test_deliverer_with_expired_lease_cannot_mark_reply(reply):
    reply()
    stale = outbox.lease_pending("telegram", lease_seconds=-1)
    again = outbox.lease_pending("telegram")
    assert len(again) == 2
    assert outbox.mark_delivered(stale[0]) is False
    assert outbox.mark_delivered(again[0]) is True


def test_reply_fails_after_maximum_attempts(reply):
    reply()
    for _ in range(outbox.MAX_ATTEMPTS):
        for row in outbox.lease_pending("telegram"):
            outbox.mark_failed(row, "no route")
    assert set(Outbox.objects.values_list("status", "error")) == {("failed", "no route")}
