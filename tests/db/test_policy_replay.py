"""Replaying recent calls under other rules: what they would have blocked and released."""

import datetime as dt
import itertools

import pytest

from clawsite.infra import clock
from clawsite.infra.reasons import Reason
from sessions_app.models import ToolCall
from sessions_app.origin import Sender
from sessions_app.runs import lifecycle
from tools_app.policy.evaluation import NOT_OFFERED, evaluate
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.policy_store import replay as policy_replay
from tools_app.policy_store.replay import replay_calls
from tools_app.sources.registry import load_installed

pytestmark = pytest.mark.usefixtures("fresh_policy")

THEN = PolicyRules(1, (RuleRow("global", profile="coding"), RuleRow("agent", "main", deny=("write",))))
FACTS = {facts.name: facts for facts in load_installed().nameable}


@pytest.fixture
def called(user, make_session):
    """Store a call as it was evaluated under THEN: called("read", days=2, agent="main")."""
    session, numbers = make_session(user), itertools.count()
    run = lifecycle.accept_run(user=user, session=session, run_id="k1", prompt="hi").pk

    def make(name, *, days=0.0, offered=True, **changes):
        number = next(numbers)
        query = PolicyQuery(**{"agent": "main", "tools": (FACTS[name],)} | changes)
        verdict = evaluate(query, THEN)
        refused = verdict.refused_by(name)
        return ToolCall.objects.create(
            run_id=run,
            session=session,
            call_id=f"c{number}",
            position=number,
            name=name,
            status=ToolCall.Status.REFUSED if refused or not offered else ToolCall.Status.FINISHED,
            lease_token=1,
            query=query.to_json(),
            verdict=verdict.to_json(),
            refused_by=NOT_OFFERED if not offered else refused.layer if refused else "",
            policy_version=1,
            created_at=clock.now() - dt.timedelta(days=days),
        )

    return make


def test_replay_with_same_rules_changes_nothing(called):
    for name in ("read", "write", "exec", "browser"):
        called(name)
    found = replay_calls(THEN)
    assert (found.total, found.blocked, found.released, found.cut) == (4, 0, 0, False)
    assert found.samples_blocked == found.samples_released == []


def test_replay_with_other_rules_blocks_and_releases_calls(called):
    for name in ("exec", "exec", "read", "write", "browser"):
        called(name)
    found = replay_calls(PolicyRules(2, (RuleRow("global", profile="coding", deny=("group:runtime",)),)))
    assert (found.total, found.blocked, found.released) == (5, 2, 1)


def test_sample_names_denying_step(called):
    blocked, released = called("exec"), called("write")
    found = replay_calls(PolicyRules(2, (RuleRow("global", profile="coding", deny=("group:runtime",)),)))
    (one,), (other,) = found.samples_blocked, found.samples_released
    assert (one.call_pk, one.tool, one.agent, one.run_pk) == (blocked.pk, "exec", "main", blocked.run_id)
    assert (one.step.layer, one.step.rule, one.step.row) == ("global", Reason("policy.deny_entry", entry="group:runtime"), "global")
    assert (other.call_pk, other.step.layer, other.step.rule) == (released.pk, "agent", Reason("policy.deny_entry", entry="write"))


def test_samples_are_newest_calls_of_each_kind(called, monkeypatch):
    monkeypatch.setattr(policy_replay, "MAX_SAMPLES", 2)
    made = [called("exec").pk for _ in range(4)]
    found = replay_calls(PolicyRules(2, (RuleRow("global", deny=("*",)),)))
    assert found.blocked == 4
    assert [sample.call_pk for sample in found.samples_blocked] == [made[3], made[2]]


def test_calls_of_unavailable_tools_are_excluded(called):
    called("read", offered=False)
    called("read")
    assert replay_calls(PolicyRules(2, (RuleRow("global", profile="full"),))).total == 1


def test_call_without_query_is_excluded(called):
    ToolCall.objects.filter(pk=called("read").pk).update(query={}, verdict={})
    assert replay_calls(THEN).total == 0


def test_call_denied_outside_policy_is_not_released(called):
    """An approver or a plugin hook denied it; the policy allowed it, and would again."""
    ToolCall.objects.filter(pk=called("exec").pk).update(status=ToolCall.Status.REFUSED, refused_by="hook")
    found = replay_calls(PolicyRules(2, (RuleRow("global", profile="full"),)))
    assert (found.total, found.released) == (1, 0)


def test_only_requested_days_are_replayed(called):
    for days in (40, 8, 6, 1):
        called("exec", days=days)
    deny = PolicyRules(2, (RuleRow("global", deny=("*",)),))
    assert [replay_calls(deny, days=days).blocked for days in (0, 2, 7, 30, 365)] == [0, 1, 2, 3, 4]
    assert replay_calls(deny).days == 7


def test_newest_calls_are_replayed_up_to_limit(called):
    called("browser")
    for _ in range(3):
        called("exec")
    found = replay_calls(PolicyRules(2, (RuleRow("global", deny=("*",)),)), max_calls=3)
    assert (found.total, found.blocked, found.cut) == (3, 3, True)
    assert replay_calls(THEN, max_calls=4).cut is False


def test_replay_uses_recorded_model_group_and_sender(called):
    called("exec", provider="openai", model="gpt-5")
    called("exec", channel="telegram", group="-1", sender=Sender(username="anna"))
    called("exec", sandboxed=True)
    called("read", is_subagent=True)
    rows = [
        RuleRow("global", profile="coding"),
        RuleRow("global", provider="openai/gpt-5", deny=("exec",)),
        RuleRow("group", channel="telegram", group="*", sender="anna", deny=("exec",)),
        RuleRow("sandbox", deny=("exec",)),
        RuleRow("subagent", deny=("read",)),
    ]
    found = replay_calls(PolicyRules(2, tuple(rows)))
    assert [sample.step.row for sample in found.samples_blocked] == [
        *("subagent", "sandbox", "group:telegram/*#anna", "global@openai/gpt-5"),
    ]
