"""Webhooks in the admin: created, tested, disabled, given new secrets, and no secret is shown twice."""

import threading
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.urls import reverse

from clawsite.connectors.webhook import service
from clawsite.connectors.webhook.models import Hook, HookDelivery
from clawsite.connectors.webhook.presets import PRESETS
from clawsite.infra.models import AuditEntry
from sessions_app.models import Run
from tests.harness.webhooks import SECRET, create_webhook

pytestmark = pytest.mark.usefixtures("database", "plain_static_files")

ADD = "admin:connectors_hook_add"
CHANGE = "admin:connectors_hook_change"
TRY = "admin:connectors_hook_try"


@pytest.fixture
def olga(make_user):
    olga = make_user("Operator", name="olga")
    olga.is_staff = True
    olga.save()
    return olga


@pytest.fixture
def client(olga) -> Client:
    client = Client()
    client.force_login(olga)
    return client


def form(**given: Any) -> dict[str, Any]:
    empty = dict.fromkeys(
        ("account", "signature", "signature_header", "secret", "delivery_header", "instructions", "message_template"), ""
    )
    empty |= dict.fromkeys(("session_key_template", "model", "thinking", "timeout_seconds"), "")
    usual = {
        "slug": "news",
        "name": "News",
        "enabled": "on",
        "action": "agent",
        "agent": "main",
        "wake_mode": "now",
        "deliver": "on",
    }
    return {**empty, **usual, **given}


def seen() -> str:
    """Return the only webhook's current form values."""
    return Hook.objects.get().seen


def words(answer: Any) -> str:
    return answer.content.decode()


def test_webhook_is_created_and_token_shown_once(client, olga):
    answer = client.post(reverse(ADD), form(make_token="on"))
    token = answer.context["secret"]
    assert token.startswith("claw_hook_")
    assert token in words(answer)
    assert "no-store" in answer.headers["Cache-Control"]
    hook = Hook.objects.get()
    assert (hook.token_digest, hook.owner.username, hook.enabled) == (service.hash_token(token), "service:hooks", True)
    page = words(client.get(reverse(CHANGE, args=[hook.pk])))
    assert token not in page
    assert hook.token_digest not in page
    entry = AuditEntry.objects.get(action="hook.changed", subject_id=str(hook.pk))
    assert (entry.actor_name, entry.details["change"]) == ("olga", "made")
    assert "token" in entry.details["fields"]


def test_only_explicit_rotation_replaces_webhook_token(client, olga):
    made = create_webhook(olga)
    address = reverse(CHANGE, args=[made.hook.pk])
    assert client.post(address, form(name="Other", seen_version=seen())).status_code == 302
    assert Hook.objects.get().token_digest == made.hook.token_digest
    token = client.post(address, form(make_token="on", seen_version=seen())).context["secret"]
    assert Hook.objects.get().token_digest == service.hash_token(token) != made.hook.token_digest


def test_signature_secret_is_stored_and_never_shown(client, olga, user):
    given = form(signature="plain", signature_header="X-Hub-Signature-256", secret=SECRET, account=user.username)
    assert client.post(reverse(ADD), given).status_code == 302
    hook = Hook.objects.get()
    assert (service.read_signing_secret(hook), hook.owner) == (SECRET, user)
    address = reverse(CHANGE, args=[hook.pk])
    assert client.post(address, {**given, "secret": "", "seen_version": seen()}).status_code == 302
    assert service.read_signing_secret(Hook.objects.get()) == SECRET
    page = words(client.get(address))
    assert SECRET not in page
    assert hook.sealed_secret not in page


def test_stale_form_does_not_undo_newer_change(client, olga):
    made = create_webhook(olga)
    address = reverse(CHANGE, args=[made.hook.pk])
    opened = client.get(address).context["adminform"].form["seen_version"].value()
    service.set_enabled(made.hook, by=olga, enabled=False)  # the webhook's token has leaked
    for stale in (opened, ""):
        answer = client.post(address, form(name="Other", enabled="on", seen_version=stale))
        assert "Another user changed this webhook after you opened it." in words(answer)
        assert (Hook.objects.get().enabled, Hook.objects.get().name) == (False, "News")
    assert client.post(address, form(name="Other", seen_version=seen())).status_code == 302


def test_conflict_during_save_is_reported(client, olga, monkeypatch):
    made, save = create_webhook(olga), service.save_webhook

    def switch_off() -> None:
        try:
            service.set_enabled(made.hook, by=olga, enabled=False)
        finally:
            connection.close()

    def meanwhile(hook: Hook, **how: Any) -> str:
        if connection.vendor == "postgresql":  # SQLite has one writer at a time, which here is the form
            thread = threading.Thread(target=switch_off)
            thread.start()
            thread.join(20)
        return save(hook, **how)

    monkeypatch.setattr(service, "save_webhook", meanwhile)
    answer = client.post(reverse(CHANGE, args=[made.hook.pk]), form(name="Other", seen_version=seen()))
    if connection.vendor == "postgresql":
        assert "Another user changed this webhook" in words(answer)
        assert (Hook.objects.get().enabled, Hook.objects.get().name) == (False, "News")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "Choose a token or a signature"),
        ({"make_token": "on", "message_template": "{{a b}}"}, "is not a path such as"),
        ({"make_token": "on", "account": "nobody"}, "no account with this name"),
        ({"make_token": "on", "agent": "nobody"}, "Agent not found"),
        ({"make_token": "on", "slug": "a/b"}, "Use a-z"),
        ({"signature": "plain", "signature_header": "X-S", "secret": "short"}, "at least 16 characters"),
    ],
)
def test_invalid_settings_are_reported_as_field_errors(client, given, said):
    answer = client.post(reverse(ADD), form(**given))
    assert answer.status_code == 200
    assert said in words(answer)
    assert not Hook.objects.exists()


@pytest.mark.parametrize("name", PRESETS)
def test_preset_fills_form_with_valid_settings(client, name):
    page = client.get(reverse(ADD), {"preset": name})
    filled = page.context["adminform"].form
    for field, value in PRESETS[name].fields.items():
        assert filled.get_initial_for_field(filled.fields[field], field) == value
    made = form(**{field: value for field, value in PRESETS[name].fields.items() if value is not False}, secret=SECRET)
    if PRESETS[name].fields.get("make_token", True):
        made["make_token"] = "on"
    client.post(reverse(ADD), made)
    tried = client.get(reverse(TRY, args=[Hook.objects.get().pk]))
    sample = tried.context["form"].initial
    told = client.post(reverse(TRY, args=[Hook.objects.get().pk]), sample).context["told"]
    assert {"json": "backup", "github": "It rains in", "mail": "Shall we meet at ten?"}[name] in told
    assert "not instructions to follow" in told


def test_dry_run_shows_prompt_without_starting_run(client, olga):
    made = create_webhook(olga, message_template="{{payload.a}} {{headers.x-kind}}")
    body = '{"a": "<script>alert(1)</script>"}'
    answer = client.post(reverse(TRY, args=[made.hook.pk]), {"body": body, "headers": "X-Kind: big"})
    assert "&lt;script&gt;alert(1)&lt;/script&gt; big" in words(answer)
    assert "<script>alert" not in words(answer)
    assert not Run.objects.exists()
    assert "Invalid JSON" in words(client.post(reverse(TRY, args=[made.hook.pk]), {"body": "{", "headers": ""}))
    assert "is empty for this body" in words(client.post(reverse(TRY, args=[made.hook.pk]), {"body": "{}", "headers": ""}))


def test_manual_delivery_starts_run_and_is_recorded(client, olga):
    made = create_webhook(olga)
    sent = {"body": '{"a": 1}', "headers": "", "deliver": "yes"}
    assert client.post(reverse(TRY, args=[made.hook.pk]), sent).status_code == 302
    row = HookDelivery.objects.get()
    assert (row.address, row.outcome, row.run) == ("admin", "accepted", Run.objects.get())
    assert AuditEntry.objects.filter(action="admin.acted").latest("pk").actor_name == "olga"
    page = words(client.get(reverse("admin:connectors_hookdelivery_change", args=[row.pk])))
    assert f"/runs/{row.run_id}/" in page
    service.set_enabled(made.hook, by=olga, enabled=False)
    assert client.post(reverse(TRY, args=[made.hook.pk]), sent).status_code == 200
    assert Run.objects.count() == 1


def test_manual_delivery_for_another_users_webhook_is_refused(client, olga, user):
    olga.groups.add(Group.objects.get(name="User"))  # is allowed to chat, so that a webhook can act for her
    sent = {"body": '{"a": 1}', "headers": "", "deliver": "yes"}
    theirs, mine = create_webhook(olga, owner=user), create_webhook(olga, "mine", owner=olga)
    answer = client.post(reverse(TRY, args=[theirs.hook.pk]), sent)
    assert (answer.status_code, bool(answer.context["told"])) == (200, True), "it is shown, and nothing else"
    assert f"This webhook acts for {user}" in words(answer)
    assert not Run.objects.exists()
    assert not HookDelivery.objects.exists()
    assert client.post(reverse(TRY, args=[mine.hook.pk]), sent).status_code == 302
    assert Run.objects.get().owner == olga


def test_bulk_disable_requires_confirmation(client, olga):
    made = create_webhook(olga)
    wish = {"action": "switch_off", "_selected_action": made.hook.pk}
    assert "Will reject all deliveries" in words(client.post(reverse("admin:connectors_hook_changelist"), wish))
    assert Hook.objects.get().enabled
    client.post(reverse("admin:connectors_hook_changelist"), {**wish, "confirmed": "yes"})
    assert not Hook.objects.get().enabled


def test_view_only_user_cannot_change_or_try_webhook(make_user, olga):
    made = create_webhook(olga)
    auditor = make_user("Auditor")
    auditor.is_staff = True
    auditor.save()
    client = Client()
    client.force_login(auditor)
    assert client.get(reverse(CHANGE, args=[made.hook.pk])).status_code == 200
    assert client.post(reverse(CHANGE, args=[made.hook.pk]), form(make_token="on")).status_code == 403
    assert client.get(reverse(TRY, args=[made.hook.pk])).status_code == 403
    assert client.get(reverse(ADD)).status_code == 403
