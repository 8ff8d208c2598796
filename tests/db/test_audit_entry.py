"""Access to the audit log: auditors are redirected to it, operators get instructions, and others get 404."""

import pytest
from django.test import Client

from clawsite.accounts.models import FirstAdminLink
from clawsite.accounts.sign_in import first_admin
from clawsite.infra.models import AuditEntry

pytestmark = pytest.mark.usefixtures("database", "plain_static_files")

LIST = "/admin/infra/auditentry/"


def browser(user):
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def first(database):
    """The first administrator, created as through the printed link."""
    FirstAdminLink.objects.all().delete()
    digest = first_admin.hash_token(first_admin.create_first_admin_link("http://x").rstrip("/").rpartition("/")[2])
    return first_admin.use_link(digest, "ada", "correct horse battery")


def test_first_admin_sees_how_to_get_audit_access(first):
    client = browser(first)
    overview = client.get("/admin/").content.decode()
    assert 'href="/audit/"' in overview
    page = client.get("/audit/").content.decode()
    assert "The audit log is for the Auditor group" in page
    assert f'href="/admin/accounts/user/{first.pk}/change/"' in page
    assert client.get(LIST).status_code == 403  # opening the link does not read the log


def test_first_admin_joining_auditors_can_read_log(first):
    from django.contrib.auth.models import Group

    client = browser(first)
    form = client.get(f"/admin/accounts/user/{first.pk}/change/").context["adminform"].form
    data = {name: form.initial[name] for name in ("username", "theme", "language") if form.initial.get(name) is not None}
    groups = [*first.groups.values_list("pk", flat=True), Group.objects.get(name="Auditor").pk]
    saved = client.post(f"/admin/accounts/user/{first.pk}/change/", {**data, "is_active": "on", "is_staff": "on", "groups": groups})
    assert saved.status_code == 302, saved.context["adminform"].form.errors
    assert client.get("/audit/").url == LIST
    page = client.get(LIST).content.decode()
    assert "groups: Auditor" in page
    assert f'href="{LIST}"' in page
    assert AuditEntry.objects.filter(action="audit.read", actor_name="ada").exists()


def test_audit_page_is_hidden_from_other_users(make_user):
    assert browser(make_user("User", "Approver")).get("/audit/").status_code == 404
    assert Client().get("/audit/").status_code == 302
    auditor = make_user("Auditor")  # without staff status the admin is closed
    assert "needs staff status" in browser(auditor).get("/audit/").content.decode()
