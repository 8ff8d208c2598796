"""Restore the tool policy after a test, and store tool calls as a worker does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clawsite.accounts.models import User
from clawsite.infra import clock
from sessions_app.models import Session, ToolCall
from sessions_app.runs import lifecycle
from tools_app.models import PolicyTest, PolicyVersion, ToolPolicy
from tools_app.policy.evaluation import evaluate
from tools_app.policy.query import PolicyQuery
from tools_app.policy_store import policies
from tools_app.policy_store.vocabulary import with_all_tools


@contextmanager
def restore_policy() -> Iterator[int]:
    """Undo all policy changes made in the block. Yields the current version number."""
    rows = [row.to_json() for row in policies.current_rules().rows]
    first = policies.current_rules().version
    try:
        yield first
    finally:
        PolicyTest.objects.all().delete()
        ToolPolicy.objects.all().delete()
        ToolPolicy.objects.bulk_create([ToolPolicy(**row) for row in rows])
        PolicyVersion.objects.filter(number__gt=first).delete()


def create_tool_call(
    user: User, session: Session, *, name: str = "write", status: str = "refused", run_id: str = "", **query: Any
) -> ToolCall:
    """Store a tool call judged by the current policy."""
    policy_query = with_all_tools(PolicyQuery("main", is_owner=True, provider="openai", model="gpt-5", **query))
    policy_query = policy_query.about(facts for facts in policy_query.tools if facts.name == name)
    verdict = evaluate(policy_query, policies.current_rules())
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
        query=policy_query.to_json(),
        verdict=verdict.to_json(),
        policy_version=policies.current_rules().version,
        lease_token=1,
        created_at=clock.now(),
    )
