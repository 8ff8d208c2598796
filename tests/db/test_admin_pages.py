"""Every table in the admin: its list and form open, with the same number of queries for fifty rows as for five."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session as Cookie
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

import clawsite.urls  # noqa: F401  # it registers the pages of the admin
from agents.models import Agent
from clawsite.accounts.models import AccessToken, BrowserSession, FailedSignIns, FirstAdminLink, KnownAddress, User
from clawsite.connectors.webhook.models import Hook, HookDelivery
from clawsite.gateway.models import Device, DeviceToken, NodeInvocation, PairingRequest
from clawsite.infra import clock
from clawsite.infra.models import AuditEntry
from sessions_app.models import (
    Attachment,
    Event,
    Freeze,
    Lane,
    Outbox,
    Run,
    Session,
    SessionMember,
    ToolCall,
    TranscriptEntry,
    Worker,
)
from tests.harness.approvals import create_decided_approval
from tools_app.models import (
    Approval,
    Command,
    McpServer,
    Plugin,
    PolicyTest,
    PolicyVersion,
    ToolPolicy,
)

pytestmark = pytest.mark.usefixtures("database", "plain_static_files")

OURS = ("accounts", "agents", "connectors", "gateway", "infra", "sessions_app", "tools_app")
# Shown with their session or request, private to one user, an index of files, or input of future commands and runs.
NOT_BY_THEMSELVES = {"EventLog", "SessionMember", "SessionMark", "MemoryFile", "MemoryChunk", "AuditSeal", "AuditHead"}
NOT_BY_THEMSELVES |= {"ApprovalVote", "CommandInput", "CommandOutput", "DeviceToken", "SpentSignature", "SystemEvent", "RunWait"}
MOST_QUERIES = 24  # of which 4 authenticate the user and read permissions


@pytest.fixture
def root(make_user):
    root = make_user("Operator", "Auditor", name="root")
    root.is_staff = root.is_superuser = True
    root.save()
    return root


@pytest.fixture
def client(root) -> Client:
    client = Client()
    client.force_login(root)
    return client


@pytest.fixture
def leftovers():
    """Clean up what the shared reset doesn't cover."""
    yield
    ToolPolicy.objects.filter(subject__startswith="robot-").delete()
    PolicyVersion.objects.filter(number__gte=1000).delete()
    PolicyTest.objects.all().delete()
    Group.objects.filter(name__startswith="team-").delete()
    LogEntry.objects.all().delete()


def fill(root: User, numbers: range) -> None:
    """Create one row of every table for each number."""
    now = clock.now()
    for n in numbers:
        user = User.objects.create(username=f"user-{n}")
        user.groups.add(Group.objects.create(name=f"team-{n}"))
        AccessToken.objects.create(user=user, name=f"t{n}", prefix=f"p{n}", digest="x", scopes=["operator.read"])
        cookie = Cookie.objects.create(session_key=f"cookie-{n}", session_data="", expire_date=now + timedelta(days=1))
        BrowserSession.objects.create(user=user, session=cookie, address="127.0.0.1")
        device = Device.objects.create(owner=user, fingerprint=f"f{n}", public_key="x", is_node=True, scopes=["operator.read"])
        DeviceToken.objects.create(device=device, role="node", digest=f"secret-digest-{n}")
        PairingRequest.objects.create(fingerprint=f"f{n}", public_key="x", account=user, role="node", expires_at=now)
        asked = {"params_json": '{"n": 1}', "request_hash": "x", "timeout_ms": 1, "expires_at": now}
        NodeInvocation.objects.create(owner=user, device=device, command="lights.on", idempotency_key=f"k{n}", **asked)
        FailedSignIns.objects.create(subject=f"s{n}", failures=n, last_failed_at=now)
        KnownAddress.objects.create(account=f"a{n}", address="127.0.0.1", last_seen_at=now)
        Agent.objects.create(slug=f"robot-{n}", name=f"Robot {n}")
        ToolPolicy.objects.create(scope="agent", subject=f"robot-{n}", profile="minimal")
        PolicyTest.objects.create(name=f"robot-{n} never runs a command", expected="never", tool="exec", agent=f"robot-{n}")
        PolicyVersion.objects.create(number=1000 + n, created_at=now, changed_by=user, snapshot=[])
        McpServer.objects.create(name=f"server{n}", command="true", checked_at=now)
        Plugin.objects.create(name=f"plugin{n}", package="some-package", seen_at=now)
        hook = Hook.objects.create(
            slug=f"hook-{n}", name=f"Hook {n}", owner=user, token_digest="secret-digest", sealed_secret="secret-digest"
        )
        Worker.objects.create(id=f"w{n}", pid=n, started_at=now, heartbeat_at=now.timestamp())
        Freeze.objects.create(scope="agent", subject=f"robot-{n}", reason="circles", by=user, by_name="user", at=now)
        session = Session.objects.create(owner=user, key=f"agent:main:k{n}", agent="main", title=f"Title {n}")
        SessionMember.objects.create(session=session, user=root)
        run = Run.objects.create(session=session, owner=user, run_id=f"r{n}", request_hash="x", accepted_at=now)
        both = {"session": session, "run": run}
        HookDelivery.objects.create(
            hook=hook, path=hook.slug, received_at=now, address="127.0.0.1", outcome="accepted", status_code=202, run=run
        )
        ToolCall.objects.create(
            **both,
            call_id=f"c{n}",
            position=0,
            name="read",
            status="finished",
            lease_token=1,
            policy_version=1000 + n,
            created_at=now,
        )
        TranscriptEntry.objects.create(**both, position=1, kind="message", role="user", message_id=f"m{n}", created_at=now)
        Event.objects.create(**both, cursor=1, seq=1, stream="lifecycle", data={"phase": "accepted"}, ts=clock.to_ms(now))
        Attachment.objects.create(owner=user, session=session, name=f"f{n}.txt", mime_type="text/plain", size=n, sha256="x")
        Outbox.objects.create(**both, channel="telegram", payload={}, created_at=now)
        create_decided_approval(user, root, session, run, n)
        LogEntry.objects.create(user=user, object_id=str(n), object_repr=f"row {n}", action_flag=2, change_message="[]")
    FirstAdminLink.objects.update_or_create(defaults={"digest": "secret-digest", "expires_at": now})


def newest(model: type) -> object:
    return model.objects.order_by("pk").last()


def pages() -> dict[str, str]:
    """Open the list of every table and the page of one of its rows."""
    found = {}
    for model in admin.site._registry:
        opts = model._meta
        name = f"admin:{opts.app_label}_{opts.model_name}"
        found[f"{opts.model_name} list"] = reverse(f"{name}_changelist")
        found[f"{opts.model_name} page"] = reverse(f"{name}_change", args=[newest(model).pk])
    return found


def queries_of(client: Client) -> dict[str, int]:
    counted = {}
    for name, address in pages().items():
        with CaptureQueriesContext(
            connection,
        ) as queries:
            response = client.get(address, secure=True)
        assert response.status_code == 200, f"{name}: {response.status_code}"
        counted[name] = len(queries)
    return counted


def test_every_model_is_registered_in_admin():
    missing = {
        model.__name__ for app in OURS for model in apps.get_app_config(app).get_models() if not admin.site.is_registered(model)
    }
    assert missing <= NOT_BY_THEMSELVES


def test_list_query_count_does_not_grow_with_rows(client, root, leftovers):
    fill(root, range(5))
    queries_of(client)  # content types and the like are cached after the first use
    few = queries_of(client)
    fill(root, range(5, 50))
    queries_of(client)  # also caches the tools of plugins and servers
    many = queries_of(client)
    assert {name: (few[name], count) for name, count in many.items() if count > few[name]} == {}
    assert {name: count for name, count in many.items() if count > MOST_QUERIES} == {}


def test_every_list_has_search_filters_and_date_hierarchy():
    lists = {model.__name__: model_admin for model, model_admin in admin.site._registry.items() if model._meta.app_label in OURS}
    assert {name for name, each in lists.items() if not each.search_fields} == {"FirstAdminLink"}
    # Lanes and links are few; failures and known addresses are narrowed by search and date.
    assert {name for name, each in lists.items() if not each.list_filter} == {
        "FailedSignIns",
        "FirstAdminLink",
        "KnownAddress",
        "Lane",
    }
    # Agents, lanes, policies and rules have no date; events have a timestamp in milliseconds and a custom filter for it.
    assert {name for name, each in lists.items() if not each.date_hierarchy} == {
        "Agent",
        "Event",
        "ExecRule",
        "FirstAdminLink",
        "Lane",
        "PolicyTest",
        "ToolPolicy",
    }


@pytest.mark.parametrize(("model", "field"), [(AccessToken, "user"), (BrowserSession, "user"), (Session, "owner"), (Run, "owner")])
def test_user_owned_rows_can_be_filtered_by_user(client, root, leftovers, model, field):
    fill(root, range(3))
    whose = getattr(newest(model), field)
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    page = client.get(f"{address}?{field}__id__exact={whose.pk}", secure=True)
    assert [getattr(row, field) for row in page.context["cl"].queryset] == [whose]
    said = page.content.decode()
    assert "unfold-filter-autocomplete" in said  # a search field instead of a list of all users
    assert f'name="{field}__id__exact"' in said


def test_history_is_read_only(client, root, leftovers):
    fill(root, range(1))
    for model in (
        AuditEntry,
        Event,
        TranscriptEntry,
        Run,
        ToolCall,
        Outbox,
        Session,
        PolicyVersion,
        Worker,
        LogEntry,
        BrowserSession,
        Freeze,
        Approval,
        Command,
        HookDelivery,
        Device,
        PairingRequest,
        NodeInvocation,
    ):
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        row = newest(model)
        before = model.objects.filter(pk=row.pk).values().get()
        assert client.get(reverse(f"{name}_add"), secure=True).status_code == 403
        assert client.post(reverse(f"{name}_change", args=[row.pk]), {"status": "completed"}, secure=True).status_code == 403
        assert client.post(reverse(f"{name}_delete", args=[row.pk]), {"post": "yes"}, secure=True).status_code == 403
        client.post(
            reverse(f"{name}_changelist"), {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"}, secure=True
        )
        assert model.objects.filter(pk=row.pk).values().get() == before


def test_pages_show_no_digest_cookie_or_password(client, root, leftovers):
    fill(root, range(2))
    AccessToken.objects.update(digest="secret-digest")
    for address in pages().values():
        said = client.get(address, secure=True).content.decode()
        assert "secret-digest" not in said
        assert "cookie-1" not in said
        assert root.password not in said


def test_related_rows_are_linked(client, root, leftovers):
    fill(root, range(3))
    run = newest(Run)
    said = client.get(reverse("admin:sessions_app_run_change", args=[run.pk]), secure=True).content.decode()
    for address in (
        reverse("admin:sessions_app_session_change", args=[run.session_id]),
        reverse("admin:accounts_user_change", args=[run.owner_id]),
        reverse("admin:sessions_app_toolcall_change", args=[run.tool_calls.get().pk]),
        f"{reverse('admin:sessions_app_event_changelist')}?run={run.pk}",
        f"{reverse('admin:sessions_app_transcriptentry_changelist')}?run={run.pk}",
    ):
        assert f'href="{address}"' in said
    # A list filtered by such a link shows only that row's objects.
    events = client.get(f"/admin/sessions_app/event/?run={run.pk}", secure=True).context["cl"]
    assert [event.run_id for event in events.queryset] == [run.pk]


def test_agent_and_sessions_link_to_each_other(client, root, leftovers):
    fill(root, range(1))
    assert (
        'href="/admin/sessions_app/session/?agent=main"'
        in client.get("/admin/agents/agent/main/change/", secure=True).content.decode()
    )
    session = client.get(f"/admin/sessions_app/session/{newest(Session).pk}/change/", secure=True).content.decode()
    assert 'href="/admin/agents/agent/main/change/"' in session


def test_json_is_indented_and_escaped(client, root, leftovers):
    fill(root, range(1))
    call = newest(ToolCall)
    ToolCall.objects.update(arguments={"path": "<img src=x onerror=alert(1)>", "words": "你好"})
    said = client.get(reverse("admin:sessions_app_toolcall_change", args=[call.pk]), secure=True).content.decode()
    assert (
        "{\n  &quot;path&quot;: &quot;&lt;img src=x onerror=alert(1)&gt;&quot;,\n  &quot;words&quot;: &quot;你好&quot;\n}" in said
    )
    assert "<img src=x" not in said


def test_menu_shows_only_viewable_models(make_user, leftovers):
    operator = make_user("Operator")
    operator.is_staff = True
    operator.save()
    client = Client()
    client.force_login(operator)
    said = client.get("/admin/sessions_app/run/", secure=True).content.decode()
    assert 'href="/admin/sessions_app/session/"' in said
    assert 'href="/admin/sessions_app/event/"' not in said  # user content
    assert 'href="/admin/admin/logentry/"' not in said


def test_lane_name_cannot_be_changed(client):
    address = reverse("admin:sessions_app_lane_change", args=["main"])
    client.post(address, {"name": "other", "max_running": 7, "warn_after_seconds": 3}, secure=True)
    assert Lane.objects.get(pk="main").max_running == 7
    assert not Lane.objects.filter(pk="other").exists()


@pytest.mark.parametrize("wanted", ["main", "1", "no such thing", "'; --"])
def test_search_works_in_every_list(client, root, leftovers, wanted):
    fill(root, range(2))
    for name, address in pages().items():
        if name.endswith(" list"):
            assert client.get(address, {"q": wanted}, secure=True).status_code == 200, name


GUESSES = [
    (BrowserSession, "session__session_key__startswith"),
    (BrowserSession, "session__startswith"),
    (BrowserSession, "session__session_key__gt"),
    (AccessToken, "digest__startswith"),
    (User, "password__startswith"),
    (Run, "prompt__icontains"),
    (Run, "error__startswith"),
    (Session, "title__icontains"),
    (ToolCall, "arguments__icontains"),
    (ToolCall, "run__prompt__icontains"),
    (McpServer, "env__icontains"),
    (McpServer, "headers__icontains"),
    (AuditEntry, "details__icontains"),
    (Hook, "token_digest__startswith"),
    (Hook, "sealed_secret__startswith"),
    (HookDelivery, "body__icontains"),
    (Device, "tokens__digest__startswith"),
    (NodeInvocation, "result_json__startswith"),
]


@pytest.mark.parametrize(("model", "lookup"), GUESSES)
def test_filtering_by_hidden_column_is_rejected(client, model, lookup):
    opts = model._meta
    path = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
    assert client.get(f"{path}?{lookup}=a").status_code == 400
    assert client.get(path).status_code == 200


@pytest.mark.parametrize(
    ("model", "lookup"),
    [(Run, "status__exact=running"), (Run, "worker=w"), (Run, "owner__id__exact=1"), (Session, "deleted_at__isempty=1")],
)
def test_offered_filters_work(client, model, lookup):
    assert client.get(reverse(f"admin:sessions_app_{model._meta.model_name}_changelist") + f"?{lookup}").status_code == 200
