"""What operators and auditors see of runs and tool calls in the admin."""

import pytest
from django.test import Client

from clawsite.infra import clock
from clawsite.infra.reasons import Reason
from sessions_app.models import ToolCall
from sessions_app.runs import lifecycle
from tools_app.policy.matcher import PolicyStep

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


@pytest.fixture(autouse=True)
def plain_static_files(settings):
    """Plain static files: a fresh clone has collected none, and these tests only check text."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


@pytest.fixture
def refused(user, make_session) -> ToolCall:
    session = make_session(user)
    accepted = lifecycle.accept_run(user=user, session=session, run_id="k1", prompt="a private question")
    steps = [
        PolicyStep("profile", "allow", Reason("policy.allow_entry", entry="x")).to_json(),
        PolicyStep("agent", "deny", Reason("policy.deny_entry", entry="write")).to_json(),
    ]
    return ToolCall.objects.create(
        run_id=accepted.pk,
        session=session,
        call_id="c1",
        position=0,
        name="write",
        arguments={"content": "a private answer"},
        status="refused",
        lease_token=1,
        refused_by="agent",
        verdict={"kept": [], "trace": {"write": steps}},
        created_at=clock.now(),
    )


def page(make_user, *groups: str):
    someone = make_user(*groups)
    someone.is_staff = True
    someone.save()
    client = Client()
    client.force_login(someone)
    return lambda address: client.get(address, secure=True)


def test_operator_sees_denial_reason_but_no_message_text(make_user, refused):
    get = page(make_user, "Operator")
    assert "denied by layer agent: deny entry `write`" in get("/admin/sessions_app/toolcall/").content.decode()
    one = get(f"/admin/sessions_app/toolcall/{refused.pk}/change/").content.decode()
    assert "denied by layer agent" in one
    assert "a private answer" not in one
    assert "a private question" not in get(f"/admin/sessions_app/run/{refused.run_id}/change/").content.decode()
    assert get("/admin/sessions_app/transcriptentry/").status_code == 403


def test_auditor_can_read_but_not_change(make_user, refused):
    get = page(make_user, "Auditor")
    assert "a private answer" in get(f"/admin/sessions_app/toolcall/{refused.pk}/change/").content.decode()
    assert "a private question" in get(f"/admin/sessions_app/run/{refused.run_id}/change/").content.decode()
    assert get("/admin/sessions_app/run/add/").status_code == 403
