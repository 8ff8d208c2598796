"""Show how other rules would have treated recent calls, by evaluating the recorded queries again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson

from clawsite.infra import clock
from sessions_app.models import ToolCall
from tools_app.policy.evaluation import NOT_OFFERED, evaluate
from tools_app.policy.matcher import PolicyStep
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules

MAX_CALLS = 20_000  # newest first; about a second of work
MAX_SAMPLES = 10  # per kind


@dataclass(frozen=True, slots=True)
class ReplaySample:
    """A call with a different result. `step` is the step that would deny it, or that denied it."""

    call_pk: int
    tool: str
    agent: str
    created_at: Any
    run_pk: int
    step: PolicyStep | None


@dataclass(slots=True)
class ReplayReport:
    """`total` counts the evaluated calls. Calls of tools that were not offered are excluded: no layer decided them.

    A call that the policy allowed but a plugin hook or an approver denied counts as allowed.
    """

    days: int
    total: int = 0
    blocked: int = 0
    released: int = 0
    cut: bool = False  # there were more calls than the limit
    samples_blocked: list[ReplaySample] = field(default_factory=list)
    samples_released: list[ReplaySample] = field(default_factory=list)


def replay_calls(rules: PolicyRules, *, days: int = 7, max_calls: int = MAX_CALLS) -> ReplayReport:
    """Count the recorded calls that these rules would newly deny (`blocked`) or allow (`released`); keep the newest as samples."""
    report = ReplayReport(days)
    denials: dict[bytes, PolicyStep | None] = {}  # an agent's queries repeat a lot
    for number, call in enumerate(_read_calls(days, max_calls + 1)):
        if number == max_calls:
            report.cut = True
            break
        query = orjson.dumps(call["query"])
        if query not in denials:
            denials[query] = _find_denial(call["query"], call["name"], rules)
        denial, recorded_denial = denials[query], _find_recorded_denial(call)
        report.total += 1
        if denial and not recorded_denial:
            report.blocked += 1
            _add_sample(report.samples_blocked, call, denial)
        elif recorded_denial and not denial:
            report.released += 1
            _add_sample(report.samples_released, call, recorded_denial)
    return report


def _read_calls(days: int, max_calls: int) -> Iterator[Mapping[str, Any]]:
    since = clock.now() - timedelta(days=days)
    calls = ToolCall.objects.exclude(refused_by=NOT_OFFERED).order_by("-pk")
    for call in calls.values("pk", "name", "query", "verdict", "created_at", "run_id")[:max_calls].iterator(chunk_size=500):
        if call["created_at"] < since:  # not a database filter: that would scan all older calls
            return
        if call["query"]:  # otherwise the call was never evaluated
            yield call


def _find_denial(query: dict[str, Any], tool: str, rules: PolicyRules) -> PolicyStep | None:
    verdict = evaluate(PolicyQuery.from_json(query), rules)
    return verdict.refused_by(tool) if tool in verdict.trace else None


def _find_recorded_denial(call: Mapping[str, Any]) -> PolicyStep | None:
    steps = call["verdict"].get("trace", {}).get(call["name"], [])
    return next((PolicyStep.from_json(step) for step in steps if step["effect"] == "deny"), None)


def _add_sample(samples: list[ReplaySample], call: Mapping[str, Any], step: PolicyStep | None) -> None:
    if len(samples) < MAX_SAMPLES:
        samples.append(ReplaySample(call["pk"], call["name"], call["query"]["agent"], call["created_at"], call["run_id"], step))
