"""Faults during a round, chosen by its seed: processes die, are suspended, lose messages; Redis restarts."""

import asyncio
import contextlib
import random

from tests.harness.processes import Process
from tests.harness.stack import Stack

LEASE = 0.5  # seconds, as tests/harness/stack.py sets it


class ChaosMonkey:
    def __init__(self, stack: Stack, seed: str) -> None:
        self._stack, self._rng = stack, random.Random(seed)
        self._frozen: set[Process] = set()
        self.done: list[str] = []
        self._active = True

    async def cause_faults(self, seconds: float) -> None:
        """Cause some faults within this time, while dead processes are restarted."""
        for process in self._stack.workers:
            process.instruct(
                slow=self._rng.choice([0.0, 0.05, 0.2])
            )  # the slower a tool, the more likely its worker dies during it
        supervisor = asyncio.create_task(self._restart_dead())
        try:
            faults = self._rng.randint(2, 4)
            for _ in range(faults):
                await asyncio.sleep(self._rng.uniform(0.2, seconds / faults))
                await self._cause_fault()
        finally:
            self._active = False
            await supervisor

    async def heal(self) -> None:
        """Stop all faults and restart dead processes. A process that was instructed to die may still do so once."""
        for process in [*self._stack.workers, *self._stack.webs]:
            process.thaw()
            process.instruct(die="", lose=0.0, double=0.0, slow=0.0)
        for process in self._stack.processes:
            while not await self._is_up(process):
                process.spawn()

    async def _is_up(self, process: Process) -> bool:
        if process.alive:
            with contextlib.suppress(RuntimeError):
                await process.until_ready()
        return process.alive

    async def _cause_fault(self) -> None:
        worker, web = self._rng.choice(self._stack.workers), self._rng.choice(self._stack.webs)
        target = self._rng.choice([worker, worker, web])
        faults = ["kill worker", "kill web", "freeze", "die at a commit", "die at a commit", "lose messages"]
        fault = self._rng.choice(faults + (["restart redis"] if self._stack.redis else []))
        match fault:
            case "kill worker":
                self._note(f"kill -9 {worker.name}")
                worker.kill()
            case "kill web":
                self._note(f"kill -9 {web.name}")
                web.kill()
            case "freeze":
                await self._freeze(worker)
            case "die at a commit":
                self._kill_at_commit(target, self._rng.randint(1, 12))
            case "lose messages":
                self._note("half of all bus messages are lost, half of the others are sent twice")
                for process in [*self._stack.workers, *self._stack.webs]:
                    process.instruct(lose=0.5, double=0.5)
            case "restart redis":
                assert self._stack.redis
                self._note("Redis restarts")
                self._stack.redis.kill()
                self._stack.redis.spawn()

    def _kill_at_commit(self, process: Process, commits: int) -> None:
        when = self._rng.choice(["before", "after"])
        self._note(f"{process.name} dies {when} its {commits}. commit from now")
        process.instruct(die=when, commits=commits)

    async def _freeze(self, process: Process) -> None:
        if not process.alive:
            return
        seconds = LEASE * self._rng.uniform(1.5, 2.5)
        self._note(f"freeze {process.name} for {seconds:.2f} s")
        self._frozen.add(process)
        process.freeze()
        await asyncio.sleep(seconds)
        process.thaw()
        self._frozen.discard(process)

    async def _restart_dead(self) -> None:
        """Restart dead processes soon; some are instructed to die again."""
        while self._active:
            for process in [*self._stack.workers, *self._stack.webs]:
                if not process.alive:
                    await asyncio.sleep(self._rng.uniform(0, 0.3))
                    process.spawn()
                    self._note(f"{process.name} restarted")
                    if self._rng.random() < 0.15:
                        self._kill_at_commit(process, self._rng.randint(1, 30))
            await asyncio.sleep(0.05)

    def _note(self, fault: str) -> None:
        self.done.append(fault)
