"""Show how given rules and the current grants would treat a command line. Nothing is requested, used or stored.

Uses the same functions that decide real commands (tools_app.approvals.command_decision).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clawsite.infra.reasons import Reason
from tools_app.approvals.command_decision import (
    filter_valid_grants,
    find_missing_isolation,
    judge_with_grant_set,
    tighten_without_isolation,
)
from tools_app.approvals.grants import GrantSet, find_grants
from tools_app.exec.gate.verdict import Analysis, ExecContext, GateVerdict
from tools_app.exec.plan import ExecPlan, PlannedCommand
from tools_app.exec.rules import ExecRules
from tools_app.models import Grant


@dataclass(frozen=True, slots=True)
class TrialResult:
    verdict: GateVerdict
    because: tuple[Grant, ...] = ()  # the grants without which the command would not be allowed


def run_trial(
    analysis: Analysis, context: ExecContext, rules: ExecRules, *, agent: str, level: int, listed: Sequence[str] = ()
) -> TrialResult:
    """Judge a line for an agent outside any session. `listed`: programs to treat as allowlisted too."""
    planned = PlannedCommand(_build_plan(analysis, context, rules, agent, level), analysis)
    if lack := find_missing_isolation(planned.plan, rules):
        return TrialResult(GateVerdict("deny", (Reason("gate.isolation", lack=lack),), analysis))
    stricter = tighten_without_isolation(rules, planned.plan)
    assumed = [Grant(entries=[{"pattern": pattern, "shape": None} for pattern in listed])] if listed else []
    rows = filter_valid_grants(find_grants(planned.plan), stricter, requester=0).rows

    def judge_by(by: Sequence[Grant]) -> GateVerdict:
        return judge_with_grant_set(planned, stricter, GrantSet([*assumed, *by], planned.plan))[0]

    verdict = judge_by(rows)
    if verdict.effect == "ask" and stricter.ask != rules.ask:
        reason = Reason("gate.no-sandbox")
        verdict = replace(verdict, reasons=(reason, *(each for each in verdict.reasons if each.code != "gate.ask-always")))
    if verdict.effect != "allow":
        return TrialResult(verdict)
    needed = list(rows)
    for row in rows:
        without = [each for each in needed if each is not row]
        if judge_by(without).effect == "allow":
            needed = without
    return TrialResult(verdict, tuple(needed))


def _build_plan(analysis: Analysis, context: ExecContext, rules: ExecRules, agent: str, level: int) -> ExecPlan:
    return ExecPlan(
        line=analysis.line,
        argv=analysis.argv,
        cwd=str(context.cwd),
        environment_hash="",
        executables=analysis.executables,
        tool="exec",
        agent=agent,
        session="",
        run=0,
        call="",
        level=level,
        workspace=str(context.cwd),
        access="rw",
        home="",
        network=rules.network,
        background=False,
        pty=False,
        timeout_s=rules.timeout_seconds,
    )
