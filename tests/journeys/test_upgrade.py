"""Upgrade a database written by the last version before the packages were rearranged (webhooks still in the app `gateway`).

The dumps hold the user ada with a group that may edit webhooks, the approver bob, two chats, a webhook, a pending approval and a
decided one. `claw serve` migrates the database, as it does for an administrator who installs a new version.
"""

import json
from pathlib import Path

import pytest

from tests.journeys.old_database import OldDatabase

pytestmark = pytest.mark.dialect

PERMISSIONS = "SELECT codename FROM auth_permission p JOIN auth_group_permissions g ON g.permission_id = p.id"
OLD_VERDICT = '{"kept": ["exec"], "trace": {}, "not_offered": "there is no workspace"}'
COPIED = "name, arguments, lease_token, query, policy_version, is_error, created_at, run_id, session_id"
ADD_OLD_CALL = f"""
    INSERT INTO sessions_app_toolcall (call_id, position, status, refused_by, verdict, {COPIED})
    SELECT 'old', 1, 'refused', 'toolset', '{OLD_VERDICT}', {COPIED} FROM sessions_app_toolcall RETURNING id
"""
WEBHOOK_EDITORS = f"{PERMISSIONS} JOIN auth_group ON auth_group.id = g.group_id WHERE auth_group.name = 'Webhook keepers'"


def test_old_database_is_upgraded_and_keeps_its_rows(django_db_setup: None, tmp_path: Path) -> None:
    old_database = OldDatabase(tmp_path / "home", "database_before_packages")
    groups_before = old_database.query(PERMISSIONS)
    old_database.query(ADD_OLD_CALL)
    with old_database.upgrade() as upgraded:
        assert old_database.query(WEBHOOK_EDITORS) == ["add_hook", "change_hook", "delete_hook", "view_hook"]
        assert old_database.query(PERMISSIONS) == groups_before, "a group lost or gained a permission"
        assert old_database.query("SELECT app_label FROM django_content_type WHERE model = 'hook'") == ["connectors"]

        (verdict,) = old_database.query("SELECT CAST(verdict AS TEXT) FROM sessions_app_toolcall WHERE call_id = 'old'")
        assert json.loads(verdict)["not_offered"] == {"code": "tool.no_workspace"}

        ada, bob = upgraded.create_token("ada", "operator.write"), upgraded.create_token("bob", "operator.approvals")
        # The search index was restored too.
        hits = json.loads(upgraded.run("call", "sessions.search", "--params", '{"query": "東京都"}', token=ada))
        assert "lobster" in json.dumps(hits)
        assert "demo" in upgraded.run("agent", "What can you do?", token=ada)
        pending = upgraded.run("approvals", "list", token=bob)
        assert "git status" in pending
        approval = old_database.query("SELECT id FROM tools_app_approval WHERE status = 'pending'")[0]
        upgraded.run("approvals", "deny", approval, "--reason", "no", token=bob)
        assert "git status" not in upgraded.run("approvals", "list", token=bob)
        assert old_database.query(f"SELECT status FROM tools_app_approval WHERE id = '{approval}'") == ["denied"]
        assert upgraded.run("audit", "verify")
