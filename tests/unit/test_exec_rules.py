"""Exec rules of several scopes: the strictest wins, field by field, and the defaults are safe."""

import pytest

from tools_app.exec.rules import STRICTER_OF, STRICTEST_FIRST, ExecRules, merge_rules
from tools_app.models import ExecRule

INSTALLATION, AGENT, SESSION = "installation", "agent", "session"


class Row:
    """A rule without a database."""

    def __init__(self, scope: str, subject: str = "", groups: tuple[int, ...] = (), **fields: object) -> None:
        self.scope, self.subject = scope, subject
        for name in (*STRICTEST_FIRST, *STRICTER_OF):
            setattr(self, name, fields.get(name, "" if name in STRICTEST_FIRST else None))
        self.approver_groups = self
        self._groups = groups

    def all(self):
        return [type("Group", (), {"pk": pk}) for pk in self._groups]

    def __str__(self) -> str:
        return f"{self.scope}:{self.subject}" if self.subject else self.scope


def test_default_rules_deny_commands_and_network():
    rules = merge_rules([])
    assert rules == ExecRules()
    assert (rules.security, rules.ask, rules.ask_fallback, rules.network) == ("deny", "on-miss", "deny", False)
    assert (rules.expires_seconds, rules.minimum_level, rules.unsafe_without_isolation) == (24 * 3600, 0, False)


@pytest.mark.parametrize(
    ("field", "installation", "agent", "strictest"),
    [
        ("security", "full", "allowlist", "allowlist"),
        ("security", "deny", "full", "deny"),
        ("ask", "off", "on-miss", "on-miss"),
        ("ask", "always", "off", "always"),
        ("ask_fallback", "allowlist", "deny", "deny"),
        ("sandbox_mode", "off", "all", "all"),
        ("sandbox_scope", "shared", "agent", "agent"),
        ("workspace_access", "rw", "ro", "ro"),
        ("exclude_requester", False, True, True),
        ("two_people", True, False, True),
        ("network", True, False, False),
        ("unsafe_without_isolation", True, False, False),
        ("expires_seconds", 600, 60, 60),
        ("timeout_seconds", 60, 600, 60),
        ("minimum_level", 1, 2, 2),
    ],
)
def test_strictest_value_of_two_scopes_wins(field, installation, agent, strictest):
    for one, other in ((installation, agent), (agent, installation)):
        merged = merge_rules([Row(INSTALLATION, **{field: one}), Row(AGENT, "main", **{field: other})])
        assert getattr(merged, field) == strictest


def test_scope_without_a_value_changes_nothing():
    merged = merge_rules([Row(INSTALLATION), Row(AGENT, "main", security="full", ask="off"), Row(SESSION, "s")])
    assert (merged.security, merged.ask) == ("full", "off")
    assert merged.set_by == {"security": "agent:main", "ask": "agent:main"}


def test_unknown_value_counts_as_the_strictest():
    assert merge_rules([Row(AGENT, "main", security="fully")]).security == "deny"
    assert merge_rules([Row(AGENT, "main", ask="sometimes", security="full")]).ask == "always"


def test_approver_groups_are_kept_per_scope():
    merged = merge_rules([Row(INSTALLATION, groups=(7, 3)), Row(AGENT, "main"), Row(SESSION, "s", groups=(5,))])
    assert merged.approver_groups == ((3, 7), (5,))


def test_every_rule_field_has_a_strictness_order():
    """A forgotten field would silently use the default."""
    merged = set(ExecRules.__dataclass_fields__) - {"approver_groups", "set_by"}
    assert merged == {*STRICTEST_FIRST, *STRICTER_OF}
    columns = {field.name for field in ExecRule._meta.get_fields()}
    assert merged <= columns
