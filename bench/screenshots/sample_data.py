"""Create the sample data of the screenshots: accounts, agents, chats, and usage of the last month.

Messages are processed by the real worker. Times are changed afterwards, so that chats have different dates. Runs of past days are
only rows.
"""

import datetime as dt
import hashlib
import itertools
import uuid
from dataclasses import dataclass
from typing import Any

from bench.screenshots import sample_chats
from bench.site import Site, until

PAST_DAYS = 29
MAIN, HELPDESK, ANALYST = "main", "helpdesk", "analyst"
KEY = "agent:main:outages"
ASKING = "agent:main:space"  # a session with a pending approval request
PAST = "help"  # the session of past runs


@dataclass(slots=True)
class SampleData:
    ada: Any  # an administrator, whose chats are shown
    denied_run: int
    failed_run: int
    denied_call: int


def prepare(site: Site) -> SampleData:
    from agents.models import Agent

    ada = site.account(
        "ada", "Operator", "User", display_name="Ada Lindqvist", email="ada@example.org", is_staff=True, is_superuser=True
    )
    bruno = site.account("bruno", "User", display_name="Bruno Costa", email="bruno@example.org")
    chen = site.account("chen", "User", "Approver", display_name="Chen Wei", email="chen@example.org")
    site.account("dora", "Auditor", display_name="Dora Novak", email="dora@example.org", is_staff=True)
    _create_agents()
    for each in Agent.objects.all():
        _write_files(each, ada, bruno)
    _create_past_runs({MAIN: ada, HELPDESK: bruno, ANALYST: chen})
    worker = _Worker()
    worker.send(ada, KEY, sample_chats.WHICH)
    worker.send(ada, KEY, sample_chats.SCRIPT)
    worker.send(ada, "agent:helpdesk:board", sample_chats.NOTES)
    worker.send(ada, "agent:main:pool", sample_chats.POOL)
    for number, (message, agent) in enumerate(OTHERS):
        worker.send(ada, f"agent:{agent}:c{number}", message)
    worker.send(bruno, "agent:helpdesk:refunds", "What is our refund policy?")
    worker.wait()
    _change_times(ada)
    _create_tokens(ada)
    worker.send(ada, "agent:analyst:interviews", sample_chats.SLOW)  # still running while screenshots are taken
    until(lambda: worker.status("agent:analyst:interviews") == "running", "the slow run to start")
    _create_approvals(worker, ada, bruno)
    board = worker.runs["agent:helpdesk:board"]
    return SampleData(ada, board, worker.runs["agent:helpdesk:refunds"], _denied_call(board))


OTHERS = (
    ("Draft the release notes for 4.2", MAIN),
    ("What did the Berlin trip cost?", MAIN),
    ("Plan the move to PostgreSQL", MAIN),
    ("Which tests are flaky?", ANALYST),
    ("Write a welcome email in French", MAIN),
    ("Interview questions for a data engineer", MAIN),
    ("Names for the meeting rooms", MAIN),
)
# Minutes since the last message of each session; pinned and unread sessions.
AGES = {
    KEY: 0,
    "agent:helpdesk:board": 48,
    "agent:main:c1": 75,
    "agent:main:pool": 26 * 60,
    "agent:main:c0": 27 * 60,
    "agent:analyst:c3": 30 * 60,
    "agent:main:c4": 3 * 24 * 60,
    "agent:main:c2": 4 * 24 * 60,
    "agent:main:c5": 5 * 24 * 60,
    "agent:main:c6": 16 * 24 * 60,
}
PINNED = ("agent:main:c2", "agent:main:c0")
UNREAD = ("agent:main:c1", "agent:analyst:c3")


class _Worker:
    """Sends messages to the worker and waits for the answers."""

    def __init__(self) -> None:
        self.runs: dict[str, int] = {}
        self._numbers = itertools.count(1)

    def send(self, user: Any, key: str, message: str) -> None:
        from sessions_app.runs.lifecycle import accept_run
        from sessions_app.sessions.service import ensure_session

        session = ensure_session(user, key)
        run_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"message {next(self._numbers)}"))
        self.runs[key] = accept_run(user=user, session=session, run_id=run_id, prompt=message).pk

    def status(self, key: str) -> str:
        from sessions_app.models import Run

        return Run.objects.get(pk=self.runs[key]).status

    def wait(self) -> None:
        from sessions_app.models import Run

        until(lambda: not Run.objects.filter(status__in=Run.UNFINISHED).exists(), "all answers")


def _create_approvals(worker: _Worker, ada: Any, bruno: Any) -> None:
    """Create pending approval requests, the older one first."""
    from clawsite.infra import clock
    from tools_app.exec.rules import enable_asking
    from tools_app.models import Approval

    enable_asking(MAIN, ada)
    for user, key, message in ((bruno, "agent:main:shop", sample_chats.CHANGED), (ada, ASKING, sample_chats.SPACE)):
        worker.send(user, key, message)
        until(lambda key=key: worker.status(key) == "waiting", "the approval request")
    for approval, minutes in zip(Approval.objects.order_by("created_at"), (12, 3), strict=True):
        age = dt.timedelta(minutes=minutes)
        Approval.objects.filter(pk=approval.pk).update(created_at=clock.now() - age, expires_at=approval.expires_at - age)


def _create_agents() -> None:
    from agents.models import Agent
    from tools_app.policy_store.policies import save_policy
    from tools_app.policy_store.policy_tests import save_test

    Agent.objects.filter(slug=MAIN).update(name="Main", model="openai/gpt-5")
    instructions = "Answer our customers' questions briefly. Cite the handbook page you used."
    Agent.objects.create(slug=HELPDESK, name="Helpdesk", model="openai/gpt-5-mini", instructions=instructions, max_turns=12)
    Agent.objects.create(slug=ANALYST, name="Analyst", model="openai/gpt-5", thinking_level="high", run_timeout_seconds=900)
    save_policy(scope="agent", subject=HELPDESK, profile="coding", deny=["write", "edit", "group:runtime"])
    save_policy(scope="agent", subject=ANALYST, profile="coding", deny=["group:runtime"])
    save_policy(scope="global", profile="minimal", deny=["nodes", "gateway"])
    save_policy(scope="agent", subject=HELPDESK, provider="openai/gpt-5-mini", deny=["group:sessions"])
    save_policy(scope="group", channel="telegram", group="*", allow=["group:fs", "session_status"])
    save_test(name="Helpdesk never runs a command", expected="never", agent=HELPDESK, tool="group:runtime")
    save_test(name="Main can read the session status", expected="allowed", agent=MAIN, tool="session_status")


def _write_files(agent: Any, *users: Any) -> None:
    from agents.context.workspace import ensure_workspace

    for user in users:
        (ensure_workspace(agent, user.pk) / "outages.csv").write_text(sample_chats.OUTAGES)


def _change_times(user: Any) -> None:
    """Change the times of each session and of its messages."""
    from clawsite.infra import clock
    from sessions_app.models import Session, TranscriptEntry
    from sessions_app.sessions import marks

    now = clock.now()
    for key, minutes in AGES.items():
        session = Session.objects.get(owner=user, key=key)
        age = dt.timedelta(minutes=minutes)
        Session.objects.filter(pk=session.pk).update(updated_at=now - age, created_at=session.created_at - age)
        for entry in TranscriptEntry.objects.filter(session=session):
            TranscriptEntry.objects.filter(pk=entry.pk).update(created_at=entry.created_at - age)
        if key not in UNREAD:
            marks.mark_read(user, session)
        if key in PINNED:
            marks.mark_session(user, session, pinned=True)


def _create_past_runs(owners: dict[str, Any]) -> None:
    """Create runs of the last month. Their numbers only depend on the day, so that they are the same each time."""
    from clawsite.infra import clock
    from sessions_app.models import Run
    from sessions_app.sessions.service import ensure_session

    sessions = {agent: ensure_session(owner, f"agent:{agent}:{PAST}") for agent, owner in owners.items()}
    today = clock.now().replace(hour=9, minute=0, second=0, microsecond=0)
    runs = []
    for back in range(PAST_DAYS, 0, -1):
        day = today - dt.timedelta(days=back)
        busy = 1.0 if day.weekday() < 5 else 0.15
        for agent, share in ((MAIN, 22), (HELPDESK, 34), (ANALYST, 7)):
            for number in range(round(share * busy * (0.75 + _chance(agent, back) / 2))):
                runs.append(_past_run(sessions[agent], agent, day, back, number))
    Run.objects.bulk_create(sorted(runs, key=lambda run: run.accepted_at))
    for session in sessions.values():
        session.deleted_at = clock.now()  # hide these empty sessions from lists
        session.save(update_fields=["deleted_at"])


def _past_run(session: Any, agent: str, day: dt.datetime, back: int, number: int) -> Any:
    from sessions_app.models import Run

    chance = _chance(agent, back, number)
    started = day + dt.timedelta(minutes=600 * _chance(number, back, agent))
    cheap = agent == HELPDESK
    input_tokens, output_tokens = int(900 + 9_000 * chance), int(60 + 900 * chance)
    failed, stopped = chance > 0.985, 0.96 < chance <= 0.985
    return Run(
        session=session,
        owner=session.owner,
        run_id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{agent} {back} {number}")),
        request_hash="",
        status=Run.Status.FAILED if failed else Run.Status.ABORTED if stopped else Run.Status.COMPLETED,
        reason="timeout" if failed else "stop" if stopped else "",
        error="The model did not answer within 600 s." if failed else "",
        model="openai/gpt-5-mini" if cheap else "openai/gpt-5",
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_microusd=int((input_tokens * 0.25 + output_tokens * 2) if cheap else (input_tokens * 1.25 + output_tokens * 10)),
        accepted_at=started,
        started_at=started,
        ended_at=started + dt.timedelta(seconds=600 if failed else 1.5 + 20 * chance),
    )


def _chance(*seed: object) -> float:
    """Return a pseudorandom number between 0 and 1 for the seed."""
    return int.from_bytes(hashlib.sha256(repr(seed).encode()).digest()[:4]) / 2**32


def _create_tokens(user: Any) -> None:
    from clawsite.accounts.groups import READ, WRITE
    from clawsite.accounts.tokens import issue_token, record_use
    from clawsite.infra import clock

    token, _secret = issue_token(user, "Nightly report", [READ, WRITE], clock.now() + dt.timedelta(days=90))
    record_use(token.pk)
    issue_token(user, "Laptop", [READ], clock.now() + dt.timedelta(days=30))


def _denied_call(run: int) -> int:
    from sessions_app.models import ToolCall

    return int(ToolCall.objects.filter(run=run, status=ToolCall.Status.REFUSED).values_list("pk", flat=True)[0])
