"""L10: nothing an agent, a webhook or a chat command can reach changes rules, allowlists or policy, or decides approvals.

What changes them is called in a few places, all of which require a signed-in person. This test reads the source, so a new tool that
called it would be found even if no test tried that tool.
"""

import ast
from pathlib import Path

import pytest

from tools_app.exec.gate.types import split_names

PROJECT = Path(__file__).resolve().parent.parent.parent
CHANGES = split_names(
    """save_rule enable_asking add_manually replace_rules save_policy delete_policy restore_version replace_policies
    import_file resolve_approval extend_approval save_webhook delete_webhook service.set_enabled"""
)
# Pages, the admin, HTTP and the socket for people with a separate permission, and the command line of the host's owner.
PLACES = (
    "clawsite/web/",
    "clawsite/api/",
    "clawsite/cli/",
    "clawsite/gateway/methods/approvals/requests.py",
    "clawsite/gateway/protocol/approvals/decisions.py",
    "clawsite/accounts/",
    "clawsite/urls.py",
)
SOURCES = ("agents", "clawsite", "sessions_app", "tools_app")


def changes_in(source: str) -> set[str]:
    """Return which of the CHANGES this source calls or passes on."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            found |= {node.attr, f"{owner}.{node.attr}"} & CHANGES
        elif isinstance(node, ast.Name):
            found |= {node.id} & CHANGES
    return found


def is_for_people(path: str) -> bool:
    return path.startswith(PLACES) or "admin" in Path(path).parts or Path(path).name.startswith("admin")


def test_only_user_facing_code_changes_a_guard():
    callers = {}
    for folder in SOURCES:
        for file in (PROJECT / folder).rglob("*.py"):
            path = str(file.relative_to(PROJECT))
            if found := changes_in(file.read_text()):
                callers[path] = found
    assert {path: found for path, found in callers.items() if not is_for_people(path)} == {
        "tools_app/exec/rules.py": {"save_rule"},  # called by enable_asking, which checks the permission too
        "tools_app/approvals/rule_document.py": {"add_manually"},  # called by replace_rules, which checks it as well
        "tools_app/policy_store/files.py": {"replace_policies"},  # import_file, for the command line
    }
    assert set().union(*callers.values()) == CHANGES, "a name that is never found guards nothing"


@pytest.mark.parametrize(
    "fault",
    [
        "from tools_app.exec.rules import save_rule\nasync def run(args): await db.write(save_rule, rule, by=user)",
        "async def run(args): approval_requests.resolve_approval(args.id, by=user, decision='allow-once')",
        "def run(args): tools_app.approval_requests.resolve_approval(args.id, by=user, decision='allow-once')",
        "def run(args): policies.save_policy(scope='agent', subject='main', profile='full')",
    ],
)
def test_tool_that_changes_a_guard_is_detected(fault):
    assert changes_in(fault)
    assert not is_for_people("tools_app/builtin/helpful.py")
    assert not is_for_people("agents/runner.py")
