"""The scope of every method that OpenClaw also has is the one it publishes, except for those listed here with a reason.

Its clients request the published scope of the methods they call, and no others. A request for `operator.admin` grants all scopes of
the account, so a method that needs less here still works for them.
"""

from clawsite.gateway.server import docs_intro, registry
from tests.protocol.openclaw.packages import published

READ, WRITE, APPROVALS, ADMIN = "operator.read", "operator.write", "operator.approvals", "operator.admin"
OWN = "it reaches what is the caller's own; with OpenClaw everything is one person's"
BY_PARAMETERS = "OpenClaw decides by the parameters; here the service behind it does, by whose things they name"
QUESTIONS = "who asked sees the question too, without a right to answer it"

# method -> (the scopes here, why they are not OpenClaw's)
OTHERS = {
    **dict.fromkeys(("chat.inject", "sessions.compact", "sessions.reset"), ({WRITE}, OWN)),
    "agents.files.set": ({WRITE}, "the same; a workspace that is shared needs operator.admin here too"),
    **dict.fromkeys(("agent", "sessions.create", "sessions.delete", "sessions.patch", "node.invoke"), ({WRITE}, BY_PARAMETERS)),
    **dict.fromkeys(("exec.approval.get", "exec.approval.list", "exec.approval.waitDecision"), ({READ, APPROVALS}, QUESTIONS)),
    **dict.fromkeys(
        ("exec.approval.grants.list", "exec.approval.grants.revoke"),
        ({APPROVALS, ADMIN}, "operators look after grants too; `operator.admin` does not include approving here"),
    ),
    "exec.approval.request": ({WRITE, APPROVALS}, "who may start runs may ask; somebody else answers"),
}


def shared() -> dict[str, str]:
    return {name: published()["methods"][name]["scope"] for name in registry.list_methods() if name in published()["methods"]}


def test_every_scope_is_from_openclaw_or_documented():
    assert len(shared()) > 60
    differ = {}
    for name, theirs in shared().items():
        method = registry.list_methods()[name]
        ours = {scope.value for scope in method.scopes} or {method.role}
        if ours != {theirs}:
            differ[name] = ours
    assert differ == {name: scopes for name, (scopes, _reason) in OTHERS.items()}


def test_lower_scope_requirements_than_openclaw_are_documented():
    less = [name for name, theirs in shared().items() if theirs == "operator.admin" and name in OTHERS]
    differences = docs_intro.INTRODUCTION.split("## Differences from OpenClaw")[1]
    assert less
    assert [name for name in less if f"`{name}`" not in differences] == []
