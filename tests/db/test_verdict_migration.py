"""Verdicts stored as English text become reason codes once, by migration."""

import importlib
import itertools
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from clawsite.infra import clock
from clawsite.infra.reasons import Reason
from sessions_app.models import ToolCall
from sessions_app.runs import lifecycle

pytestmark = pytest.mark.dialect

migration = importlib.import_module("sessions_app.migrations.0017_reason_codes_in_verdicts")
CODING = Reason("policy.profile", name="coding")
# Texts as stored before, and the codes that replaced them.
CONVERTED = {
    "no rule": Reason("policy.no_rule"),
    "no limit": Reason("policy.no_limit"),
    "open to everybody": Reason("policy.open"),
    "only for the owner": Reason("policy.owner_only"),
    "allow entry `group:fs`": Reason("policy.allow_entry", entry="group:fs"),
    "also allow entry `*`": Reason("policy.also_allow_entry", entry="*"),
    "deny entry `exec`": Reason("policy.deny_entry", entry="exec"),
    "no allow entry matches": Reason("policy.not_listed"),
    "allow list ignored, as it names only plugins": Reason("policy.only_plugins"),
    "webhook list: allow list ignored, as it names only plugins": Reason("policy.only_plugins"),
    "profile `coding`: allow entry `group:fs`": Reason("policy.allow_entry_in", entry="group:fs", source=CODING),
    "profile `coding`: also allow entry `x`": Reason("policy.also_allow_entry_in", entry="x", source=CODING),
    "profile `full`: no limit": Reason("policy.no_limit_in", source=Reason("policy.profile", name="full")),
    "default profile `minimal`: no allow entry matches": Reason(
        "policy.not_listed_in", source=Reason("policy.default_profile", name="minimal")
    ),
    "unknown profile `codng`: deny entry `*`": Reason(
        "policy.deny_entry_in", entry="*", source=Reason("policy.unknown_profile", name="codng")
    ),
    "key `3f9c21aa`: no allow entry matches": Reason("policy.not_listed_in", source=Reason("policy.access_token", name="3f9c21aa")),
    "sandbox list: deny entry `group:ui`": Reason("policy.deny_entry_in", entry="group:ui", source=Reason("policy.sandbox_list")),
    "subagent list: no limit": Reason("policy.no_limit_in", source=Reason("policy.subagent_list")),
    "webhook list: deny entry `message`": Reason("policy.deny_entry_in", entry="message", source=Reason("policy.webhook_list")),
    "there is no such tool in this run": Reason("tool.unknown"),
    "the policy refused it when this run began": Reason("tool.denied_at_start"),
    "this version does not have it yet": Reason("tool.not_installed"),
    "there is no workspace": Reason("tool.no_workspace"),
    "commands need a workspace": Reason("tool.no_workspace"),
    "there is nowhere to speak from outside of a run": Reason("tool.outside_run"),
    "notes are read for the owner of the session only": Reason("tool.notes_of_owner"),
    "images cannot be shown to the model `a/b`": Reason("tool.no_image_input", model="a/b"),
    "made for models of OpenAI, and this one is `a/b`": Reason("tool.openai_only", model="a/b"),
    "no search engine is configured: set CLAWSITE_SEARXNG_URL or BRAVE_API_KEY": Reason("tool.no_search_engine"),
    "CLAWSITE_SEARCH_PROVIDER names an unknown search engine: `x`": Reason("tool.search_engine_unknown", name="x"),
    "CLAWSITE_SEARCH_PROVIDER names a search engine that is not configured: `x`": Reason(
        "tool.search_engine_not_configured", name="x"
    ),
    "it could not be made, see the log: `ValueError`": Reason("tool.factory_failed", error="ValueError"),
    "its factory returns nothing that could be called": Reason("tool.factory_without_function"),
    "its factory makes no plan of what it would do": Reason("tool.factory_without_plan"),
    "plugin `x` does not offer it any more": Reason("source.plugin_dropped_it", name="x"),
    "plugin `x` cannot be used now": Reason("source.plugin_failed", name="x"),
    "plugin `x` was switched off": Reason("source.plugin_disabled", name="x"),
    "MCP server `x` does not offer it any more": Reason("source.server_dropped_it", name="x"),
    "MCP server `x` cannot be used now": Reason("source.server_failed", name="x"),
    "MCP server `x` was switched off": Reason("source.server_disabled", name="x"),
    "its source `x` was removed": Reason("source.removed", name="x"),
}
OTHERS = ["there is no paint", "deny entry", "no limit `x`", "profile: no limit", "profile `coding`", "plugin `x` is tired", ""]


@pytest.mark.parametrize(("text", "reason"), CONVERTED.items())
def test_known_text_becomes_code(text, reason):
    assert migration.convert_text(text) == reason.to_json()
    assert Reason.from_json(migration.convert_text(text)).text == reason.text


@pytest.mark.parametrize("text", OTHERS)
def test_other_text_stays(text):
    assert migration.convert_text(text) == text


def step(rule: Any) -> dict[str, Any]:
    return {"layer": "agent", "effect": "deny", "rule": rule, "row": "agent:main"}


@pytest.fixture
def stored(user, make_session, monkeypatch):
    """Store a verdict; pages of two, so that three calls need two."""
    monkeypatch.setattr(migration, "PAGE", 2)
    session, numbers = make_session(user), itertools.count()
    run = lifecycle.accept_run(user=user, session=session, run_id="k1", prompt="hi").pk

    def store(verdict: dict[str, Any]) -> ToolCall:
        place = next(numbers)
        return ToolCall.objects.create(
            run_id=run,
            session=session,
            call_id=f"c{place}",
            position=place,
            name="exec",
            lease_token=1,
            verdict=verdict,
            created_at=clock.now(),
        )

    return store


def test_stored_verdicts_are_converted_once(stored):
    code = Reason("policy.deny_entry", entry="exec").to_json()
    denied = stored({"kept": [], "trace": {"exec": [step("no rule"), step("deny entry `exec`")], "read": []}})
    unavailable = stored({"kept": ["exec"], "trace": {"exec": [step("custom")]}, "not_offered": "there is no workspace"})
    others = [stored({}), stored({"caller": "weather"}), stored({"trace": {"exec": [step(code)]}, "exec": "it was not approved"})]
    unchanged = [each.verdict for each in others]
    for _ in range(2):
        migration.convert_verdicts(apps, connection.schema_editor())
        denied.refresh_from_db()
        unavailable.refresh_from_db()
        assert denied.verdict == {"kept": [], "trace": {"exec": [step({"code": "policy.no_rule"}), step(code)], "read": []}}
        assert unavailable.verdict == {
            "kept": ["exec"],
            "trace": {"exec": [step("custom")]},
            "not_offered": {"code": "tool.no_workspace"},
        }
        assert [ToolCall.objects.get(pk=each.pk).verdict for each in others] == unchanged
