"""The scene: who is there, which agents, what was said when, and a month of use before it.

What is said goes through the real worker. Only moments are changed afterwards, so that there is a yesterday, and the runs of
past days are rows that never ran.
"""

import datetime as dt
import hashlib
import itertools
import uuid
from dataclasses import dataclass
from typing import Any

from bench.site import Site, until

PAST_DAYS = 29
MAIN, HELPDESK, ANALYST = "main", "helpdesk", "analyst"
KEY = "agent:main:outages"
ASKING = "agent:main:space"  # a command waits there for somebody's yes
PAST = "help"  # where the runs of past days belong


@dataclass(slots=True)
class Scene:
    ada: Any  # an administrator, whose conversations are shown
    refused_run: int
    failed_run: int
    refused_call: int


def prepare(site: Site) -> Scene:
    from agents.models import Agent

    ada = site.account(
        "ada", "Operator", "User", display_name="Ada Lindqvist", email="ada@example.org", is_staff=True, is_superuser=True
    )
    bruno = site.account("bruno", "User", display_name="Bruno Costa", email="bruno@example.org")
    chen = site.account("chen", "User", "Approver", display_name="Chen Wei", email="chen@example.org")
    site.account("dora", "Auditor", display_name="Dora Novak", email="dora@example.org", is_staff=True)
    _agents()
    for each in Agent.objects.all():
        _files(each, ada, bruno)
    _past({MAIN: ada, HELPDESK: bruno, ANALYST: chen})
    told = _Told()
    told.ask(ada, KEY, story.WHICH)
    told.ask(ada, KEY, story.SCRIPT)
    told.ask(ada, "agent:helpdesk:board", story.NOTES)
    told.ask(ada, "agent:main:pool", story.POOL)
    for number, (question, agent) in enumerate(OTHERS):
        told.ask(ada, f"agent:{agent}:c{number}", question)
    told.ask(bruno, "agent:helpdesk:refunds", "What is our refund policy?")
    told.wait()
    _spread(ada)
    _tokens(ada)
    told.ask(ada, "agent:analyst:interviews", story.SLOW)  # still being answered while the pictures are taken
    until(lambda: told.status("agent:analyst:interviews") == "running", "the slow run to start")
    _questions(told, ada, bruno)
    board = told.runs["agent:helpdesk:board"]
    return Scene(ada, board, told.runs["agent:helpdesk:refunds"], _refused_call(board))


OTHERS = (
    ("Draft the release notes for 4.2", MAIN),
    ("What did the Berlin trip cost?", MAIN),
    ("Plan the move to PostgreSQL", MAIN),
    ("Which tests fail now and then?", ANALYST),
    ("Welcome mail in French, please", MAIN),
    ("Questions for the data engineer's interview", MAIN),
    ("Names for the meeting rooms", MAIN),
)
# Days and minutes since each was last written in; what is pinned; what has not been read.
MOMENTS = {
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


class _Told:
    """Questions on their way through the worker."""

    def __init__(self) -> None:
        self.runs: dict[str, int] = {}
        self._numbers = itertools.count(1)

    def ask(self, user: Any, key: str, question: str) -> None:
        from sessions_app.runs.lifecycle import accept_run
        from sessions_app.sessions.service import ensure_session

        session = ensure_session(user, key)
        run_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"question {next(self._numbers)}"))
        self.runs[key] = accept_run(user=user, session=session, run_id=run_id, prompt=question).pk

    def status(self, key: str) -> str:
        from sessions_app.models import Run

        return Run.objects.get(pk=self.runs[key]).status

    def wait(self) -> None:
        from sessions_app.models import Run

        until(lambda: not Run.objects.filter(status__in=Run.UNFINISHED).exists(), "all answers")


def _questions(told: _Told, ada: Any, bruno: Any) -> None:
    """Commands that wait for people, the older one first."""
    from clawsite.infra import clock
    from tools_app.exec.rules import enable_asking
    from tools_app.models import Approval

    enable_asking(MAIN, ada)
    for user, key, question in ((bruno, "agent:main:shop", story.CHANGED), (ada, ASKING, story.SPACE)):
        told.ask(user, key, question)
        until(lambda key=key: told.status(key) == "waiting", "its question")
    for asked, minutes in zip(Approval.objects.order_by("created_at"), (12, 3), strict=True):
        by = dt.timedelta(minutes=minutes)
        Approval.objects.filter(pk=asked.pk).update(created_at=clock.now() - by, expires_at=asked.expires_at - by)


def _agents() -> None:
    from agents.models import Agent
    from tools_app.policy_store.policies import save_policy
    from tools_app.policy_store.policy_tests import save_test

    Agent.objects.filter(slug=MAIN).update(name="Main", model="openai/gpt-5")
    instructions = "Answer questions of our customers' staff. Be short. Name the page of the handbook you rely on."
    Agent.objects.create(slug=HELPDESK, name="Helpdesk", model="openai/gpt-5-mini", instructions=instructions, max_turns=12)
    Agent.objects.create(slug=ANALYST, name="Analyst", model="openai/gpt-5", thinking_level="high", run_timeout_seconds=900)
    save_policy(scope="agent", subject=HELPDESK, profile="coding", deny=["write", "edit", "group:runtime"])
    save_policy(scope="agent", subject=ANALYST, profile="coding", deny=["group:runtime"])
    save_policy(scope="global", profile="minimal", deny=["nodes", "gateway"])
    save_policy(scope="agent", subject=HELPDESK, provider="openai/gpt-5-mini", deny=["group:sessions"])
    save_policy(scope="group", channel="telegram", group="*", allow=["group:fs", "session_status"])
    save_test(name="Helpdesk never runs a command", expected="never", agent=HELPDESK, tool="group:runtime")
    save_test(name="Main may ask for the status", expected="allowed", agent=MAIN, tool="session_status")


def _files(agent: Any, *users: Any) -> None:
    from agents.context.workspace import ensure_workspace

    for user in users:
        (ensure_workspace(agent, user.pk) / "outages.csv").write_text(story.OUTAGES)


def _spread(user: Any) -> None:
    """Give each conversation its moment, and move what was said in it with it."""
    from clawsite.infra import clock
    from sessions_app.models import Session, TranscriptEntry
    from sessions_app.sessions import marks

    now = clock.now()
    for key, minutes in MOMENTS.items():
        session = Session.objects.get(owner=user, key=key)
        by = dt.timedelta(minutes=minutes)
        Session.objects.filter(pk=session.pk).update(updated_at=now - by, created_at=session.created_at - by)
        for entry in TranscriptEntry.objects.filter(session=session):
            TranscriptEntry.objects.filter(pk=entry.pk).update(created_at=entry.created_at - by)
        if key not in UNREAD:
            marks.mark_read(user, session)
        if key in PINNED:
            marks.mark_session(user, session, pinned=True)


def _past(owners: dict[str, Any]) -> None:
    """Runs of the last month; their figures follow from the day alone, so every picture shows the same."""
    from clawsite.infra import clock
    from sessions_app.models import Run
    from sessions_app.sessions.service import ensure_session

    sessions = {agent: ensure_session(owner, f"agent:{agent}:{PAST}") for agent, owner in owners.items()}
    today = clock.now().replace(hour=9, minute=0, second=0, microsecond=0)
    made = []
    for back in range(PAST_DAYS, 0, -1):
        day = today - dt.timedelta(days=back)
        busy = 1.0 if day.weekday() < 5 else 0.15
        for agent, share in ((MAIN, 22), (HELPDESK, 34), (ANALYST, 7)):
            for number in range(round(share * busy * (0.75 + _chance(agent, back) / 2))):
                made.append(_past_run(sessions[agent], agent, day, back, number))
    Run.objects.bulk_create(sorted(made, key=lambda run: run.accepted_at))
    for session in sessions.values():
        session.deleted_at = clock.now()  # they are empty, and nobody should see them in a list
        session.save(update_fields=["deleted_at"])


def _past_run(session: Any, agent: str, day: dt.datetime, back: int, number: int) -> Any:
    from sessions_app.models import Run

    chance = _chance(agent, back, number)
    began = day + dt.timedelta(minutes=600 * _chance(number, back, agent))
    cheap = agent == HELPDESK
    read, written = int(900 + 9_000 * chance), int(60 + 900 * chance)
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
        input_tokens=read,
        output_tokens=written,
        cost_microusd=int((read * 0.25 + written * 2) if cheap else (read * 1.25 + written * 10)),
        accepted_at=began,
        started_at=began,
        ended_at=began + dt.timedelta(seconds=600 if failed else 1.5 + 20 * chance),
    )


def _chance(*words: object) -> float:
    """Between 0 and 1, and for the same words always the same."""
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:4]) / 2**32


def _tokens(user: Any) -> None:
    from clawsite.accounts.groups import READ, WRITE
    from clawsite.accounts.tokens import issue_token, record_use
    from clawsite.infra import clock

    token, _secret = issue_token(user, "Nightly report", [READ, WRITE], clock.now() + dt.timedelta(days=90))
    record_use(token.pk)
    issue_token(user, "Laptop", [READ], clock.now() + dt.timedelta(days=30))


def _refused_call(run: int) -> int:
    from sessions_app.models import ToolCall

    return int(ToolCall.objects.filter(run=run, status=ToolCall.Status.REFUSED).values_list("pk", flat=True)[0])
