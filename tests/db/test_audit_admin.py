"""The audit log in the admin: auditors read and export it, which is recorded; no one else sees it."""

import asyncio
import json
import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext

from clawsite.infra import clock
from clawsite.infra.audit import actor
from clawsite.infra.audit import chain as audit_chain
from clawsite.infra.audit import export as audit_export
from clawsite.infra.audit import log as audit_log
from clawsite.infra.models import AuditEntry, AuditSeal
from tests.harness import audit as audit_room
from tests.harness.page_source import compact_html

LIST = "/admin/infra/auditentry/"
EXPORT = f"{LIST}export/"
MOST_QUERIES = 24


@pytest.fixture(autouse=True)
def surroundings(database, settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    audit_room.clear_log()


def test_admin_names_audit_log_and_its_entries(staff):
    audit_log.record_all(audit_log.NewAuditEntry("settings.changed") for _ in range(3))
    client = staff("Auditor")
    page = client.get(LIST, secure=True).content.decode()
    assert re.search(r"<h1>\s*Audit log\s*</h1>", page)
    assert re.search(r"\b\d+\s+audit log entries\b", page)
    assert page.count("Audit log") >= 2  # the menu too
    entry = client.get(f"{LIST}{AuditEntry.objects.first().pk}/change/", secure=True).content.decode()
    assert f'<a href="{LIST}">Audit log</a>' in compact_html(entry)


@pytest.fixture
def staff(make_user):
    def make(*groups: str, name: str = "", client: type[Client] = Client):
        user = make_user(*groups, name=name)
        user.is_staff = True
        user.save()
        made = client()
        made.force_login(user)
        return made

    return make


@pytest.fixture
def auditor(staff) -> Client:
    return staff("Auditor", name="audrey")


def page(entry: AuditEntry) -> str:
    return f"{LIST}{entry.pk}/change/"


def fill(count: int) -> None:
    audit_log.record_all(
        audit_log.NewAuditEntry(
            "call.refused", actor.actor_for_agent("main"), ("tool", f"tool-{n}"), "0b5c-session", n, {"layer": "sandbox", "n": n}
        )
        for n in range(count)
    )
    while audit_chain.seal_entries():
        pass


@pytest.mark.parametrize("groups", [("Operator",), ("Approver",), ("User",), ("Operator", "Approver", "User")])
def test_only_auditors_can_view_audit_log(staff, groups):
    fill(1)
    client = staff(*groups)
    for address in (LIST, page(AuditEntry.objects.first()), EXPORT):
        assert client.get(address, secure=True).status_code == 403
    assert "auditentry" not in client.get("/admin/", secure=True).content.decode()
    assert not AuditEntry.objects.filter(action__startswith="audit.").exists()
    assert Client().get(LIST, secure=True).status_code == 302


def test_auditor_sees_list_and_entry_with_chain_position(auditor):
    fill(3)
    said = auditor.get(LIST, secure=True).content.decode()
    assert 'href="/admin/infra/auditentry/"' in said  # in the menu
    assert "Tool call denied" in said
    assert "tool tool-2" in said
    assert 'href="/admin/sessions_app/session/0b5c-session/change/"' in said
    assert 'href="/runs/2/"' in said
    entry = AuditEntry.objects.get(subject_id="tool-1")
    said = auditor.get(page(entry), secure=True).content.decode()
    assert (
        "{\n  &quot;n&quot;: 1,\n  &quot;layer&quot;: &quot;sandbox&quot;\n}" in said
        or "&quot;layer&quot;: &quot;sandbox&quot;" in said
    )
    assert entry.digest in said
    assert AuditSeal.objects.get(entry_id=entry.pk).hash in said


def test_entry_content_is_escaped(auditor):
    audit_log.record("call.refused", subject=("tool", "<img src=x onerror=alert(1)>"), name="<script>alert(1)</script>")
    for address in (LIST, page(AuditEntry.objects.get(action="call.refused"))):
        said = auditor.get(address, secure=True).content.decode()
        assert "<img src=x" not in said
        assert "<script>alert(1)" not in said


def test_list_can_be_filtered_and_searched(auditor):
    fill(3)
    audit_log.record("sign_in.failed", subject=("account", "99"))

    def listed(query: str) -> set[str]:
        response = auditor.get(f"{LIST}?{query}", secure=True)
        assert response.status_code == 200, response.content.decode()[:500]
        return {entry.subject_id for entry in response.context["cl"].queryset}

    assert listed("action=sign_in.failed") == {"99"}
    assert listed("actor_kind__exact=agent") == {"tool-0", "tool-1", "tool-2"}
    assert listed("session=0b5c-session&run=1") == {"tool-1"}
    assert listed("q=tool-2") == {"tool-2"}
    assert "tool-2" in listed(f"at__year={clock.now().year}")


def test_reading_is_recorded_once_per_user_and_ten_minutes(auditor, staff, monkeypatch):
    fill(1)
    entry = AuditEntry.objects.first()
    for address in (LIST, LIST, page(entry)):
        auditor.get(address, secure=True)
    staff("Auditor", name="other").get(page(entry), secure=True)
    read = AuditEntry.objects.filter(action="audit.read").order_by("pk")
    assert [each.actor_name for each in read] == ["audrey", "other"]
    later = clock.now() + timedelta(minutes=11)
    monkeypatch.setattr(clock, "now", lambda: later)
    auditor.get(LIST, secure=True)
    assert [each.actor_name for each in read.all()] == ["audrey", "other", "audrey"]


def exported(client: AsyncClient, query: str = "") -> list[dict]:
    async def fetch() -> bytes:
        response = await client.get(EXPORT + query, secure=True)
        assert response.status_code == 200
        assert response["Content-Type"] == "application/x-ndjson"
        assert response["Content-Disposition"].startswith('attachment; filename="audit-')
        return b"".join([part async for part in response.streaming_content])

    return [json.loads(line) for line in asyncio.run(fetch()).splitlines()]


def test_filtered_export_is_paged_and_recorded(staff, monkeypatch):
    monkeypatch.setattr(audit_export, "PAGE_SIZE", 2)
    fill(5)
    lines = exported(staff("Auditor", name="audrey", client=AsyncClient), "?action=call.refused&actor_kind__exact=agent")
    assert [line["subject"]["id"] for line in lines] == [f"tool-{n}" for n in range(5)]
    assert all(line["hash"] and line["position"] for line in lines)
    (entry,) = AuditEntry.objects.filter(action="audit.exported")
    assert entry.actor_name == "audrey"
    assert entry.details == {"entries": 5, "chosen": {"action": "call.refused", "actor_kind__exact": "agent"}}


def test_export_button_keeps_list_filters(auditor):
    fill(1)
    assert f'href="{EXPORT}?action=call.refused"' in auditor.get(f"{LIST}?action=call.refused", secure=True).content.decode()


def test_export_rejects_filters_not_offered_by_list(auditor):
    assert auditor.get(f"{EXPORT}?details__icontains=a", secure=True).status_code in (302, 400)


def test_list_query_count_does_not_grow_with_entries(auditor):
    fill(5)
    auditor.get(LIST, secure=True)
    counted = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            assert auditor.get(LIST, secure=True).status_code == 200
        counted.append(len(queries))
        fill(45)
    assert counted[0] == counted[1] <= MOST_QUERIES


def test_session_and_run_link_to_their_audit_entries(auditor, make_session, user):
    from sessions_app.runs import lifecycle

    session = make_session(user)
    run = lifecycle.accept_run(user=user, session=session, run_id="r", prompt="hello")
    audit_log.record("call.allowed", session=session.pk, run=run.pk)
    said = auditor.get(f"/admin/sessions_app/session/{session.pk}/change/", secure=True).content.decode()
    assert f'href="{LIST}?session={session.pk}"' in said
    said = auditor.get(f"/admin/sessions_app/run/{run.pk}/change/", secure=True).content.decode()
    assert f"{LIST}?session={session.pk}&amp;run={run.pk}" in said
