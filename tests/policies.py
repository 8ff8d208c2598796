"""Helpers for policy tests: restore the policy afterwards, and record calls as a worker does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clawsite.accounts.models import User
from clawsite.infra import clock
from sessions_app.models import Session, ToolCall
from sessions_app.runs import lifecycle
from tools_app.models import PolicyTest, PolicyVersion, ToolPolicy
from tools_app.policy.chain import evaluate
from tools_app.policy.query import PolicyQuery
from tools_app.policy_store import policies
from tools_app.policy_store.vocabulary import with_all_tools


@contextmanager
def policy_restored() -> Iterator[int]:
    """Return the current version number; rows, tests and versions created inside are removed afterwards."""
    rows = [row.to_json() for row in policies.current_rules().rows]
    first = policies.current_rules().version
    try:
        yield first
    finally:
        PolicyTest.objects.all().delete()
        ToolPolicy.objects.all().delete()
        ToolPolicy.objects.bulk_create([ToolPolicy(**row) for row in rows])
        PolicyVersion.objects.filter(number__gt=first).delete()


def recorded(
    user: User, session: Session, *, name: str = "write", status: str = "refused", run_id: str = "", **query: Any
) -> ToolCall:
    """Store a call as a worker does, evaluated under the current policy."""
    asked = with_all_tools(PolicyQuery("main", is_owner=True, provider="openai", model="gpt-5", **query))
    asked = asked.about(facts for facts in asked.tools if facts.name == name)
    verdict = evaluate(asked, policies.current_rules())
    accepted = lifecycle.accept_run(
        user=user, session=session, run_id=run_id or f"run-{ToolCall.objects.count()}", prompt="the secret prompt"
    )
    refused = verdict.refused_by(name)
    return ToolCall.objects.create(
        run_id=accepted.pk,
        session=session,
        call_id="c1",
        position=0,
        name=name,
        arguments={"path": "the-secret-path"},
        status=status,
        refused_by=refused.layer if refused else "",
        query=asked.to_json(),
        verdict=verdict.to_json(),
        policy_version=policies.current_rules().version,
        lease_token=1,
        created_at=clock.now(),
    )
