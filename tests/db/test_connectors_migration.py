"""Webhooks moved from the app `gateway` to the app `connectors`: rows, permissions and their holders stay."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.test import Client
from django.utils import timezone

from clawsite.accounts.models import User
from clawsite.connectors.webhook.models import Hook, HookDelivery, SpentSignature

pytestmark = pytest.mark.dialect

BEFORE = [("connectors", None), ("gateway", "0004_webhooks_ask_the_person_they_act_for")]
AFTER = [("connectors", "0002_content_types")]
MODELS = ("hook", "hookdelivery", "spentsignature")


def migrate(targets: list[Any]) -> Any:
    executor = MigrationExecutor(connection)
    return executor.migrate(targets).apps


@pytest.fixture
def old_apps(database: None) -> Iterator[Any]:
    try:
        migrate(BEFORE)
        yield MigrationExecutor(connection).loader.project_state([("gateway", "0004_webhooks_ask_the_person_they_act_for")]).apps
    finally:
        call_command("migrate", verbosity=0)


def labels() -> dict[str, list[str]]:
    types = ContentType.objects.filter(model__in=MODELS).order_by("model")
    found: dict[str, list[str]] = {}
    for label, model in types.values_list("app_label", "model"):
        found.setdefault(label, []).append(model)
    return found


def add_rows(apps: Any) -> User:
    owner = User.objects.create(username="olga")
    hook = apps.get_model("gateway", "Hook").objects.create(slug="github", name="GitHub", owner_id=owner.pk)
    apps.get_model("gateway", "HookDelivery").objects.create(
        hook=hook, path="github", received_at=timezone.now(), address="192.0.2.1", outcome="accepted", status_code=202
    )
    apps.get_model("gateway", "SpentSignature").objects.create(hook=hook, digest="d" * 64)
    return owner


def assert_rows() -> None:
    hook = Hook.objects.get(slug="github")
    assert hook.deliveries.get().address == "192.0.2.1"
    assert HookDelivery.objects.count() == SpentSignature.objects.filter(hook=hook).count() == 1


@pytest.mark.parametrize("both_exist", [False, True])
def test_webhooks_keep_their_rows_and_permissions(old_apps: Any, both_exist: bool) -> None:
    ContentType.objects.clear_cache()
    assert labels() == {"gateway": list(MODELS)}
    owner = add_rows(old_apps)
    group = Group.objects.create(name="webhook editors")
    of_webhooks = Permission.objects.filter(content_type__app_label="gateway", content_type__model="hook")
    group.permissions.set(of_webhooks.filter(codename__in=["view_hook", "change_hook"]))
    owner.user_permissions.add(of_webhooks.get(codename="delete_hook"))
    if both_exist:  # as post_migrate creates them if it runs between the two migrations
        for model in MODELS:
            new = ContentType.objects.create(app_label="connectors", model=model)
            if model == "hook":
                group.permissions.remove(of_webhooks.get(codename="view_hook"))
                group.permissions.add(Permission.objects.create(content_type=new, codename="view_hook", name="Can view webhook"))

    migrate(AFTER)

    ContentType.objects.clear_cache()
    assert labels() == {"connectors": list(MODELS)}
    held = group.permissions.values_list("content_type__app_label", "codename").order_by("codename")
    assert list(held) == [("connectors", "change_hook"), ("connectors", "view_hook")]
    assert User.objects.get(pk=owner.pk).has_perm("connectors.delete_hook")
    assert not Permission.objects.filter(content_type__app_label="gateway", codename__endswith="hook").exists()
    assert_rows()


def test_migration_can_be_reversed(old_apps: Any) -> None:
    add_rows(old_apps)
    migrate(AFTER)
    migrate(BEFORE)
    ContentType.objects.clear_cache()
    assert labels() == {"gateway": list(MODELS)}
    assert_rows()  # the tables were not touched


def test_old_admin_urls_redirect(client: Client) -> None:
    response = client.get("/admin/gateway/hook/3/change/?_popup=1")
    assert (response.status_code, response["Location"]) == (302, "/admin/connectors/hook/3/change/?_popup=1")
