"""What would become of a command line, by rules that one chooses and the grants of this moment. Nothing is asked, used or stored.

The same parts decide as for a real command (tools_app.approvals.supervise); this module only puts the question.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tools_app.approvals.grants import GrantSet, find_grants
from tools_app.approvals.supervise import (
    filter_valid_grants,
    find_missing_isolation,
    judge_with_grant_set,
    tighten_without_isolation,
)
from tools_app.exec.gate.verdict import Analysis, ExecContext, GateReason, GateVerdict
from tools_app.exec.plan import ExecPlan, PlannedCommand
from tools_app.exec.rules import ExecRules
from tools_app.models import Grant


@dataclass(frozen=True, slots=True)
class TrialResult:
    judgement: GateVerdict
    because: tuple[Grant, ...] = ()  # the grants without which it would not be allowed


def run_trial(
    analysis: Analysis, place: ExecContext, rules: ExecRules, *, agent: str, level: int, listed: Sequence[str] = ()
) -> TrialResult:
    """Judge a line for an agent in no chat in particular. `listed`: programs that are supposed to be on the list too."""
    planned = PlannedCommand(_build_plan(analysis, place, rules, agent, level), analysis)
    if lack := find_missing_isolation(planned.plan, rules):
        return TrialResult(GateVerdict("deny", (GateReason("isolation", f"{lack[0].upper()}{lack[1:]}."),), analysis))
    stricter = tighten_without_isolation(rules, planned.plan)
    supposed = [Grant(entries=[{"pattern": pattern, "shape": None} for pattern in listed])] if listed else []
    rows = filter_valid_grants(find_grants(planned.plan), stricter, requester=0).rows

    def judged(by: Sequence[Grant]) -> GateVerdict:
        return judge_with_grant_set(planned, stricter, GrantSet([*supposed, *by], planned.plan))[0]

    judgement = judged(rows)
    if judgement.effect == "ask" and stricter.ask != rules.ask:
        reason = GateReason("no-sandbox", "Without a sandbox every command is asked about.")
        judgement = replace(judgement, reasons=(reason, *(each for each in judgement.reasons if each.code != "ask-always")))
    if judgement.effect != "allow":
        return TrialResult(judgement)
    needed = list(rows)
    for row in rows:
        without = [each for each in needed if each is not row]
        if judged(without).effect == "allow":
            needed = without
    return TrialResult(judgement, tuple(needed))


def _build_plan(analysis: Analysis, place: ExecContext, rules: ExecRules, agent: str, level: int) -> ExecPlan:
    return ExecPlan(
        line=analysis.line,
        argv=analysis.argv,
        cwd=str(place.cwd),
        environment_hash="",
        executables=analysis.executables,
        tool="exec",
        agent=agent,
        session="",
        run=0,
        call="",
        level=level,
        workspace=str(place.cwd),
        access="rw",
        home="",
        network=rules.network,
        background=False,
        pty=False,
        timeout_s=rules.timeout_seconds,
    )
