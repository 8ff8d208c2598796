"""The invariant of synchronization: whatever happens to a run, its events describe exactly what its rows contain.

Runs are generated: answers with text, thinking and tool calls, denials, failing models, dying workers, aborts. All of it goes
through the real runner and the real services; only the model is scripted.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agents.deltas import DeltaWriter
from agents.llm import retry
from agents.llm.base import FailureKind, Finished, ModelRequest, ProviderError, StreamEvent, TextDelta, ThinkingDelta, Usage
from agents.llm.messages import AssistantMessage, ToolCallRequest
from agents.prepare import model_plan
from agents.runner import Runner
from clawsite.infra import db
from clawsite.infra.clock import boot_time
from sessions_app.models import Run
from sessions_app.runs import lifecycle, queue
from tests.faults import database_rows as stored
from tests.faults.checker import find_violations
from tests.faults.history import History
from tests.faults.run_text import find_stream_faults

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="<>", exclude_categories=["Cs"]), min_size=1, max_size=8)
CALLS = st.sampled_from(
    [
        ("write", {"path": "a.txt", "content": "x"}, ""),
        ("read", {"path": "a.txt"}, ""),
        ("read", {"path": "missing"}, ""),
        ("glob", {"pattern": "*"}, ""),
        ("write", {"path": "../outside", "content": "x"}, ""),
        ("read", {"wrong": 1}, ""),
        ("read", {}, "Expecting value"),
        ("no_such_tool", {"a": [1]}, ""),
    ]
)
FAILURES = [FailureKind.CUT, FailureKind.RATE_LIMIT, FailureKind.UNAVAILABLE, FailureKind.AUTH, FailureKind.EMPTY]
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Turn:
    """What the model answers when asked, and how that ends: normally, with a failure, or with the end of the worker or the run."""

    thoughts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    calls: list[tuple[str, dict, str]] = field(default_factory=list)
    ending: str = "well"  # or a failure kind, "worker dies", "aborted", "timeout"
    pause: bool = False  # long enough between two words for a commit


ENDINGS = st.sampled_from(["well"] * 5 + ["worker dies"] * 2 + ["aborted", "timeout"] + [str(kind) for kind in FAILURES])
TURNS = st.builds(
    Turn,
    thoughts=st.lists(WORDS, max_size=2),
    texts=st.lists(WORDS, max_size=4),
    calls=st.lists(CALLS, max_size=3),
    ending=ENDINGS,
    pause=st.booleans(),
)


class Script:
    """A model that follows these turns; after the last it only says goodbye."""

    def __init__(self, turns: list[Turn]) -> None:
        self._turns = [*turns, *[Turn(texts=["bye"])] * 20]
        self.stuck: asyncio.Queue[str] = asyncio.Queue()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        turn = self._turns.pop(0)
        for thought in turn.thoughts:
            yield ThinkingDelta(thought)
        for text in turn.texts:
            if turn.pause:
                await asyncio.sleep(0.03)
            yield TextDelta(text)
        if turn.ending in set(FailureKind):
            raise ProviderError(FailureKind(turn.ending), "as scripted")
        if turn.ending != "well":
            self.stuck.put_nowait(turn.ending)
            await asyncio.Event().wait()
        calls = tuple(ToolCallRequest(f"c{next(_numbers)}", name, arguments, error) for name, arguments, error in turn.calls)
        yield Finished(AssistantMessage("".join(turn.texts), "".join(turn.thoughts), calls), Usage(1, 1), "stop")

    async def aclose(self) -> None:
        pass


async def carry_out(script: Script, user, session) -> int:
    """Accept a run and execute it as workers do, until it has ended. Return its key."""
    run_pk = lifecycle.accept_run(user=user, session=session, run_id=str(session.id), prompt="hello").pk
    (claimed,) = (await db.write(queue.claim_runs, "worker", 1, alone=True)).runs
    for number in itertools.count(2):
        runner = Runner(claimed, DeltaWriter())
        runner.extend_lease(boot_time() + 60)
        work, stuck = runner.start(), asyncio.create_task(script.stuck.get())
        await asyncio.wait([work, stuck], return_when=asyncio.FIRST_COMPLETED)
        if not stuck.done():
            stuck.cancel()
            return run_pk
        match stuck.result():
            case "aborted":
                lifecycle.request_abort(user=user, session=session)
                runner.stop(Run.Status.ABORTED, "rpc")
            case "timeout":
                runner.stop(Run.Status.FAILED, "timeout", "it took too long")
            case "worker dies":
                work.cancel()
                await asyncio.wait([work])
                await db.write(Run.objects.filter(pk=run_pk).update, lease_until=1.0)
                rescued = await db.write(queue.recover_runs, f"worker {number}", 1, alone=True)
                if not rescued:  # once too often
                    return run_pk
                (claimed,) = rescued
                continue
        await work
        return run_pk
    raise AssertionError("unreachable")


@pytest.fixture
def story(user, make_session, monkeypatch):
    monkeypatch.setattr(retry, "FIRST_DELAY_S", 0.001)

    async def tell(turns: list[Turn]):
        script, session = Script(turns), make_session(user)
        monkeypatch.setattr(model_plan, "open_provider", lambda *_, **__: script)
        run_pk = await carry_out(script, user, session)
        rows = stored.read_rows([session.key])
        done = {str(call.arguments["path"]): 1 for call in rows.calls if call.name == "write" and call.status == "finished"}
        # The model's intended text is not known here, so only check that its text is streamed without gaps.
        found = [violation for violation in find_violations(rows, History(seed=0, executed=done)) if violation.promise != "text"]
        return Run.objects.get(pk=run_pk), [*found, *find_stream_faults(rows.events_of_runs()[run_pk])]

    return tell


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@example(turns=[Turn(texts=["half an ans"], ending="worker dies", pause=True), Turn(texts=["a whole one"])])
@example(turns=[Turn(calls=[("write", {"path": "a.txt", "content": "x"}, "")]), Turn(ending="worker dies")] * 2)
@example(turns=[Turn(texts=["a"], ending="worker dies")] * 3)
@example(turns=[Turn(texts=["to be cut"], ending="cut", pause=True), Turn(texts=["and stopped"], ending="aborted", pause=True)])
@example(turns=[Turn(thoughts=["hm"], texts=["so far"], ending="timeout", pause=True)])
@example(turns=[Turn(texts=["0", "0"], ending="cut", pause=True), Turn(calls=[("write", {"path": "a.txt", "content": "x"}, "")])])
@example(turns=[Turn(texts=["a\x00b"], thoughts=["\x00"], calls=[("read", {"path": "\x00"}, "")])])
@given(turns=st.lists(TURNS, max_size=5))
async def test_replayed_run_events_match_rows(turns, story):
    run, found = await story(turns)
    assert found == []
    assert run.status in Run.ENDED
