"""For tests about approvals: questions as a run asks them, without a run that goes on."""

import datetime as dt
import itertools
from typing import Any

from clawsite.accounts.models import User
from clawsite.infra import clock
from sessions_app.models import Run, Session, ToolCall
from sessions_app.runs import lifecycle
from tools_app.exec.gate.types import Executable
from tools_app.exec.plan import ExecPlan
from tools_app.models import Approval, ApprovalVote, Command, ExecRule, Grant

_numbers = itertools.count(1)
LINE = "git status --short && ls -la | head -5 > out.txt"
WHY = "I want to see what has changed before I go on."


def parts_of(line: str) -> list[dict[str, Any]]:
    """Roughly what the gate finds: programs after operators, arguments behind them. Good enough to be coloured."""
    found, place, first = [], 0, True
    for word in line.split(" "):
        kind = "program" if first else "argument"
        if word in ("&&", "||", "|", ";"):
            kind = "operator"
        elif word.startswith(">"):
            kind = "redirect"
        first = kind == "operator"
        if word:
            found.append({"begin": place, "end": place + len(word), "kind": kind, "note": ""})
        place += len(word) + 1
    return found


def plan_of(session: Session | None, line: str, *, call: str, run: int = 0, **more: Any) -> ExecPlan:
    programs = [line[part["begin"] : part["end"]] for part in parts_of(line) if part["kind"] == "program"]
    facts: dict[str, Any] = {
        "line": line,
        "argv": None,
        "cwd": "/home/ada/work",
        "environment_hash": "0" * 64,
        "executables": tuple(Executable(name, f"/usr/bin/{name}", f"/usr/bin/{name}", "1:2:3:4") for name in programs),
        "tool": "exec",
        "agent": session.agent if session else "main",
        "session": str(session.pk) if session else "",
        "run": run,
        "call": call,
        "level": 2,
        "workspace": "/home/ada/work",
        "access": "rw",
        "home": "",
        "network": False,
        "background": False,
        "pty": False,
        "timeout_s": 1800,
    }
    return ExecPlan(**(facts | more))


def asked(user: User, session: Session, line: str = LINE, *, plan: dict[str, Any] | None = None, **more: Any) -> Approval:
    """An open question of a parked run."""
    number = next(_numbers)
    call = f"call-{number}"
    accepted = lifecycle.accept_run(user=user, session=session, run_id=f"asking-{number}", prompt="the secret prompt")
    now = clock.now()
    ToolCall.objects.create(
        run_id=accepted.pk,
        session=session,
        call_id=call,
        position=0,
        name="exec",
        arguments={"command": line},
        status=ToolCall.Status.WAITING,
        query={},
        verdict={},
        policy_version=1,
        lease_token=1,
        created_at=now,
    )
    busy = Run.objects.filter(session=session, status__in=["running", "waiting"]).exists()
    if not busy:
        Run.objects.filter(pk=accepted.pk).update(status=Run.Status.WAITING, reason="approval", started_at=now)
    made = plan_of(session, line, call=call, run=accepted.pk, **(plan or {}))
    facts: dict[str, Any] = {
        "session": session,
        "run_id": accepted.pk,
        "generation": session.generation,
        "call_id": call,
        "tool": "exec",
        "agent": made.agent,
        "requester": user,
        "plan": made.to_json(),
        "plan_hash": made.hash,
        "shown": shown_of(made),
        "why": WHY,
        "created_at": now - dt.timedelta(minutes=3),
        "expires_at": now + dt.timedelta(hours=23),
    }
    return Approval.objects.create(**(facts | more))


def shown_of(plan: ExecPlan, **more: Any) -> dict[str, Any]:
    names = [each.name for each in plan.executables]
    return {
        "parts": parts_of(plan.line),
        "reasons": [{"code": "not-allowlisted", "words": f"{name} is not on the list of allowed programs"} for name in names],
        "writes": ["/home/ada/work/out.txt"],
        "touches": [],
        "may": ["allow-once", "allow-for", "allow-always", "deny"],
        "narrow": [{"pattern": f"/usr/bin/{name}", "shape": ["status", "--short"]} for name in names],
        **more,
    }


def many(user: User, session: Session, count: int) -> None:
    """So many at once, of one run."""
    first = asked(user, session)
    copies = []
    for number in range(count - 1):
        copy = Approval.objects.get(pk=first.pk)
        copy.pk = None
        copy.id = Approval._meta.get_field("id").get_default()
        copy.call_id = f"{first.call_id}-{number}"
        copies.append(copy)
    Approval.objects.bulk_create(copies, batch_size=200)


def answered(user: User, by: User, session: Session, run: Run, n: int) -> None:
    """A row of every table: a question that was answered, its vote and grant, the command that came of it, and a rule."""
    now = clock.now()
    plan = plan_of(session, "ls", call=f"asked-{n}", run=run.pk)
    common = {"session": session, "run": run, "generation": 1, "call_id": plan.call, "plan": plan.to_json(), "plan_hash": plan.hash}
    approval = Approval.objects.create(
        **common,
        tool="exec",
        agent="main",
        requester=user,
        shown=shown_of(plan),
        created_at=now,
        expires_at=now,
        status=Approval.Status.USED,
        decided_by=by,
        decided_at=now,
    )
    ApprovalVote.objects.create(approval=approval, user=by, at=now)
    Grant.objects.create(
        scope="agent", subject="nobody", entries=[{"pattern": "ls"}], owner=user, approval=approval, created_at=now
    )
    Command.objects.create(**common, name=f"otter-{n}", worker="w1", status=Command.Status.EXITED, started_at=now, ended_at=now)
    ExecRule.objects.create(scope="agent", subject=f"nobody-{n}", security="allowlist", updated_by=user)
