"""What other rules would have said to the calls of the last days: the recorded questions, put to the same `evaluate` again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson

from clawsite.infra import clock
from sessions_app.labels.rules import NOT_OFFERED
from sessions_app.models import ToolCall
from tools_app.policy.chain import PolicyStep, evaluate
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules

MAX_CALLS = 20_000  # newest first; about a second of work
MAX_SAMPLES = 10  # of each kind


@dataclass(frozen=True, slots=True)
class ReplaySample:
    """One call that would have gone the other way. `step` is what would refuse it, or what refused it then."""

    call_pk: int
    tool: str
    agent: str
    created_at: Any
    run_pk: int
    step: PolicyStep | None


@dataclass(slots=True)
class ReplayReport:
    """`total` were judged. Calls of tools that were not offered at all have no verdict to change and are left out.

    What the policy let through and something else stopped, a hook or a person, was not refused in this sense.
    """

    days: int
    total: int = 0
    blocked: int = 0
    released: int = 0
    cut: bool = False  # there were more calls than are looked at
    samples_blocked: list[ReplaySample] = field(default_factory=list)
    samples_released: list[ReplaySample] = field(default_factory=list)


def replay_calls(rules: PolicyRules, *, days: int = 7, most: int = MAX_CALLS) -> ReplayReport:
    """Count what these rules would have blocked and released of the recorded calls, with the newest as samples."""
    found = ReplayReport(days)
    answers: dict[bytes, PolicyStep | None] = {}  # an agent asks the same question again and again
    for number, call in enumerate(_read_calls(days, most + 1)):
        if number == most:
            found.cut = True
            break
        question = orjson.dumps(call["query"])
        if question not in answers:
            answers[question] = _find_denial(call["query"], call["name"], rules)
        would_refuse, refused_then = answers[question], _find_recorded_denial(call)
        found.total += 1
        if would_refuse and not refused_then:
            found.blocked += 1
            _add_sample(found.samples_blocked, call, would_refuse)
        elif refused_then and not would_refuse:
            found.released += 1
            _add_sample(found.samples_released, call, refused_then)
    return found


def _read_calls(days: int, most: int) -> Iterator[Mapping[str, Any]]:
    since = clock.now() - timedelta(days=days)
    judged = ToolCall.objects.exclude(refused_by=NOT_OFFERED).order_by("-pk")
    for call in judged.values("pk", "name", "query", "verdict", "created_at", "run_id")[:most].iterator(chunk_size=500):
        if call["created_at"] < since:  # not asked of the database, which would read every older call to find none
            return
        if call["query"]:  # else it was never judged
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
