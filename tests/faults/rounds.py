"""One round: users chat in several sessions while faults occur; after recovery everything is read and compared.

The seed chooses everything but the timing; finding bad interleavings is the purpose of rounds.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable

from django.db import connection

from sessions_app.runs import lifecycle
from sessions_app.sessions.service import ensure_session
from tests.faults import database_rows as stored
from tests.faults.chaos import ChaosMonkey
from tests.faults.clients import RoundContext, Sender, Watcher
from tests.faults.connection import RawConnection
from tests.faults.history import CursorProbe, History, Rows, SendAttempt, WatchedStream
from tests.harness.stack import Stack

FAULT_SECONDS = 2.2  # seconds
TIMEOUT = 40.0  # seconds until all runs have ended after recovery; lease, sweep and retries take about 3 s
MESSAGES = 3  # in each session
FAR_AHEAD = 1_000


class Round:
    def __init__(self, stack: Stack, people: dict[int, str], seed: int) -> None:
        """`people` maps users to their access tokens."""
        self._stack, self._people = stack, people
        self._seed, self._rng = seed, random.Random(seed)
        self.history = History(seed)
        self._context = RoundContext(stack, self.history, people)
        self._sessions = {f"agent:main:r{seed}-p{owner}-{n}": owner for owner in people for n in range(2)}
        self._background = {f"agent:main:r{seed}-b{owner}": owner for owner in people}
        self._keys = [*self._sessions, *self._background]

    async def run(self) -> tuple[Rows, History]:
        chaos = ChaosMonkey(self._stack, f"{self._seed}-chaos")
        watchers = [
            Watcher(self._context, f"{name} watcher", owner, key, restless=name != "calm")
            for key, owner in self._sessions.items()
            for name in ("calm", "restless")
        ]
        senders = {key: Sender(self._context, owner, key, f"{self._seed}-{key}") for key, owner in self._sessions.items()}
        watching = [asyncio.create_task(watcher.watch()) for watcher in watchers]
        talking = [asyncio.create_task(self._talk(sender, key)) for key, sender in senders.items()]
        background = asyncio.create_task(asyncio.to_thread(self._accept_in_background))
        try:
            await chaos.cause_faults(FAULT_SECONDS)
            self.history.faults = chaos.done
            await chaos.heal()
            await self._until("all messages are sent", lambda: all(task.done() for task in [*talking, background]))
            await asyncio.gather(*talking, background)
            await self._until("all runs have ended", lambda: not stored.unfinished(self._keys))
            heads = stored.heads(self._keys)
            await self._until(
                "the watchers have received the last event", lambda: all(w.reached >= heads[w.session_key] for w in watchers)
            )
        finally:
            self._context.over.set()
            for task in talking:
                task.cancel()
            await asyncio.gather(*watching, *talking, return_exceptions=True)
            for sender in senders.values():
                await sender.close()
        for task in watching:
            task.result()
        await self._read_again(heads)
        self.history.executed = self._executed()
        return stored.read_rows(self._keys), self.history

    async def _until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for a condition, but not forever. The checker reports what did not end."""
        give_up = time.monotonic() + TIMEOUT
        while not condition():
            if time.monotonic() > give_up:
                self.history.faults.append(f"NOT within {TIMEOUT:g} s: {what}; {stored.unfinished(self._keys)}")
                return
            await asyncio.sleep(0.03)

    async def _talk(self, sender: Sender, key: str) -> None:
        rng = random.Random(f"{self._seed}-{key}-words")
        for number in range(MESSAGES):
            await asyncio.sleep(rng.uniform(0, 0.4))
            # Sessions of different users use the same idempotency keys, which must only conflict per user.
            run_id = f"r{self._seed}-{key[-1]}-{number}"
            prompt, hangs = self._prompt(rng, f"{key.rpartition(':')[2]}-{number}")
            await sender.send(run_id, prompt)
            if rng.random() < 0.25:
                await sender.send(run_id, prompt)
            if rng.random() < 0.1:
                await sender.send(run_id, f"{prompt} and more", expect="CONFLICT")
            if rng.random() < 0.1:
                await sender.once("chat.inject", sessionKey=key, message="by the way")
            if rng.random() < 0.04:
                await sender.once("sessions.reset", key=key)
            if hangs:
                await asyncio.sleep(rng.uniform(0.2, 0.6))
                await sender.abort(run_id)

    def _prompt(self, rng: random.Random, name: str) -> tuple[str, bool]:
        """Return (prompt, whether it hangs until it is aborted)."""
        tag = f"tag={name}"
        stream = f"tokens={rng.randint(10, 30)} delay_ms={rng.randint(3, 15)}"
        file = f'{{"path":"r{self._seed}/{name}-%d","content":"x"}}'
        match rng.choices(["plain", "write", "two", "cut", "busy", "hang"], [40, 20, 12, 10, 6, 12])[0]:
            case "write":
                return f"[[tool=write args={file % 0}]] [[{stream}]]", False
            case "two":
                reads = '[[tool=glob args={"pattern":"*"}]] [[tool=read args={"path":"none"} parallel=1]]'
                return f"[[tool=write args={file % 0}]] {reads} [[tool=write args={file % 1}]] [[{stream}]]", False
            case "cut":
                return f"[[{stream} cut_after={rng.randint(1, 9)} times=1 {tag}]]", False
            case "busy":
                return f"[[{stream} error=503 times=1 {tag}]]", False
            case "hang":
                return f"[[{stream} hang_after={rng.randint(0, 9)} {tag}]]", True
        return f"[[{stream}]]", False

    def _accept_in_background(self) -> None:
        """Accept runs in a lane with at most two concurrent runs, as a schedule does."""
        from clawsite.accounts.models import User

        try:
            for key, owner in self._background.items():
                user = User.objects.get(pk=owner)
                session = ensure_session(user, key)
                for number in range(2):
                    run_id, prompt = f"{key}-{number}", "[[tokens=10 delay_ms=10]]"
                    accepted = lifecycle.accept_run(user=user, session=session, run_id=run_id, prompt=prompt, lane="nested")
                    self.history.sent.append(SendAttempt("ok", owner, run_id, key, prompt, {"runId": accepted.run_id}))
        finally:
            connection.close()

    async def _read_again(self, heads: dict[str, int]) -> None:
        """Read each session again from every web process, by history and by subscription."""
        for web in range(len(self._stack.webs)):
            for owner, token in self._people.items():
                conn = await RawConnection.open(self._stack.ws_url(web), token)
                for key in (key for key, whose in self._sessions.items() if whose == owner):
                    watched = WatchedStream(
                        f"late reader of web-{web}", key, owner, self._rng.choice([0, self._rng.randrange(heads[key])])
                    )
                    cursor, more = watched.after, True
                    while more:
                        page = await conn.request("sessions.history", {"sessionKey": key, "fromStateVersion": cursor, "limit": 50})
                        watched.events += [frame["payload"] for frame in page["events"]]
                        cursor, more = page["cursor"], page["more"]
                    watched.complete = True
                    self.history.watched.append(watched)
                    place = heads[key] + FAR_AHEAD
                    answer = await conn.request("sessions.messages.subscribe", {"key": key, "fromStateVersion": place})
                    self.history.probed.append(CursorProbe(key, place, bool(answer.get("resync_required"))))
                await conn.close()

    def _executed(self) -> dict[str, int]:
        tally = self._stack.home / "tally"  # written by tests/faults/faulty_process.py
        lines = tally.read_text().split() if tally.exists() else []
        return dict(Counter(line for line in lines if line.startswith(f"r{self._seed}/")))
