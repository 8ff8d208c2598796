"""One run, claim to end.

    1 resolve model   2 choose credentials   3 take the session   4 build tools   5 load history     (prepare.py)
    6 stream          7 execute tools                                                                (loop.py, tools_app)
    8 persist                                                                                        (here, and only here)

Whatever the loop yields is committed before the loop goes on, so a run whose worker died continues after its last step.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from dataclasses import replace

from agents.deltas import TEXT, THINKING, DeltaWriter, OpenMessage, Source
from agents.events import AskEvent, AttemptReset, LoopEvent, MessageStarted, Parked, Replied, TurnsUsedUp, UseEvent
from agents.failover import ask_model
from agents.image_reach import within_reach
from agents.loop import carry_out, converse, steps_taken
from agents.messages import Message, ToolCallAsked
from agents.prepare import RunPlan, prepare
from agents.providers.base import CallDelta, ProviderError, TextDelta, ThinkingDelta
from agents.providers.prices import takes_images
from agents.storing import Store, Turn
from clawsite.infra import db
from clawsite.infra.errors import ClawError, Unavailable
from sessions_app.freezes import Frozen
from sessions_app.models import Run
from sessions_app.queue import Claimed, LeaseLost
from sessions_app.selectors import live_view
from tools_app.adapter.aliases import with_own_names
from tools_app.authorize import Authorization, AuthorizedCall
from tools_app.definition import CallRef, ToolEnded, ToolResult, text_result
from tools_app.execute import use_tools
from tools_app.execution.plan import Planned
from tools_app.hooks import Blocked, Changed, HookCall, run_hooks
from tools_app.loop_guard import Opinion, judge, pending, refusal, told_instead
from tools_app.supervision import Supervision
from tools_app.wrappers import planned

log = logging.getLogger(__name__)


class Runner:
    """Works on one claimed run. `stop(reason)` ends it from outside; the way it ended is in the rows."""

    def __init__(self, claimed: Claimed, deltas: DeltaWriter) -> None:
        self.claimed = claimed
        self.open = OpenMessage(claimed)
        self._deltas = deltas
        self._store = Store(claimed, self.open)
        self._decided: dict[str, Authorization] = {}
        self._blocked: dict[str, Blocked] = {}
        self._stopped: tuple[Run.Status | None, str] | None = None
        self._settled = False  # ended or parked in the rows
        self.abandoned = False  # the database refused a write: the run is to be given back once it does not
        self._abort = asyncio.Event()
        self._plan: RunPlan
        self._messages: Sequence[Message] = ()  # as the loop has them

    def start(self) -> "asyncio.Task[None]":
        self.open.owner = asyncio.create_task(self._run(), name=f"run {self.claimed.pk}")
        return self.open.owner

    def lease_renewed(self, until: float) -> None:
        """Tools may be started until then, by `clock.boot_time`."""
        self._store.may_act_until = until

    def stop(self, to: Run.Status | None, reason: str) -> None:
        """End the run as `to`, or let it wait as people stopped it; None leaves it to another worker (drained, lease lost)."""
        if self._stopped is None and self.open.owner and not self.open.owner.done():
            self._stopped = (to, reason)
            self._abort.set()
            self.open.owner.cancel()

    async def _run(self) -> None:
        claimed = self.claimed
        try:
            async with asyncio.timeout(None) as limit:
                await self._work(limit)
        except TimeoutError as fault:
            if not limit.expired():
                await self._failed(fault)
                return
            error = f"the run took longer than {self._plan.timeout_seconds:g} s and was stopped"
            await self._end(Run.Status.FAILED, "timeout", error)
        except asyncio.CancelledError:
            if self.open.lost is not None:
                self.abandoned = isinstance(self.open.lost, Unavailable)
                log.warning("run %d cannot be written any more and is left for another worker: %s", claimed.pk, self.open.lost)
            elif self._stopped is None:
                raise
            else:
                to, reason = self._stopped
                if to == Run.Status.WAITING:
                    await self._settle(self._store.freeze(reason))
                elif to is not None:
                    await self._end(to, reason)
        except Frozen as stopped:  # before the hint of it came
            await self._settle(self._store.freeze(str(stopped)))
        except ProviderError as error:
            await self._end(Run.Status.FAILED, error.kind, f"the model did not answer: {error.message}")
        except LeaseLost as error:
            log.warning("%s; stopped working on it", error)
        except Unavailable as error:  # the database, not the run: it goes on where it was once the rows can be written again
            self.abandoned = True
            log.warning("run %d is left for another worker: %s", claimed.pk, error)
        except ClawError as error:
            await self._end(Run.Status.FAILED, error.code.lower(), error.message)
        except Exception as fault:
            await self._failed(fault)

    async def _work(self, limit: asyncio.Timeout) -> None:
        if not self.claimed.first:
            await self._void_open_answer()
        self._plan = await prepare(self.claimed)
        # Only running counts: what earlier leases used is gone, waiting for people costs nothing.
        left = self._plan.timeout_seconds - self.claimed.running_seconds
        limit.reschedule(asyncio.get_running_loop().time() + max(left, 0))
        self._messages = self._plan.history
        async with aclosing(self._conversation()) as events:
            async for event in events:
                await self._persist(event)
        if self._plan.invoked and not self._settled:
            await self._end(Run.Status.COMPLETED, "invoked")
        elif not self._settled:
            # An answer and the end of its run are one commit, so it was stored by whoever took the run over.
            raise LeaseLost(f"run {self.claimed.pk} was answered by another worker")

    def _conversation(self) -> AsyncGenerator[LoopEvent, None]:
        plan = self._plan
        if plan.invoked:
            return carry_out(plan.history, plan.invoked, new_id=_new_id, use=self._use)
        return converse(plan.history, ask=self._ask, use=self._use, max_turns=plan.agent.max_turns)

    async def _void_open_answer(self) -> None:
        """The last owner died in mid-answer: its text is told to be void, and asked for again."""
        view = await db.read(live_view, self.claimed.pk)
        if view.open_message:
            await self._store.reset(view.open_message, view.attempt + 1)

    async def _persist(self, event: LoopEvent) -> None:
        match event:
            case TextDelta(text):
                self._deltas.add(self.open, TEXT, text)
            case ThinkingDelta(text):
                self._deltas.add(self.open, THINKING, text)
            case CallDelta(index, name, text):
                self._deltas.add(self.open, Source("toolcall", index, name), text)
            case MessageStarted(message_id, attempt):
                self.open.begin(message_id, attempt)
            case AttemptReset():
                await self._store.retry(event)
            case Replied():
                self._settled = not event.message.tool_calls
                self._decided |= await self._store.reply(event, await self._turn(event.message.tool_calls), self._plan)
            case TurnsUsedUp(limit):
                self._settled = True
                error = (
                    f"the model was asked {limit} times without coming to an end; raise the agent's turns per run or ask for less"
                )
                await self._end(Run.Status.FAILED, "turns_used_up", error)
            case Parked(reason):
                self._settled = True
                await self._store.park(reason)
            case _:
                pass  # tool events were stored by the journal below, before they were told

    async def _ask(self, messages: Sequence[Message]) -> AsyncGenerator[AskEvent, None]:
        self._messages = messages
        shown = within_reach(messages, takes_images=takes_images(self._plan.model.display))
        request = replace(self._plan.request, messages=tuple(shown))
        answer = ask_model(self._plan.provider, request, new_id=_new_id, sleep=asyncio.sleep)
        async with aclosing(answer) as events:
            async for event in events:
                yield event

    async def _use(self, calls: Sequence[ToolCallAsked]) -> AsyncGenerator[UseEvent, None]:
        """Carry out the calls of one turn that have no result yet."""
        opinions = self._judged(calls)
        undecided = [call for call in calls if call.id not in self._decided]
        if undecided:  # the run was rescued or parked between the decision and the result: the policy may have changed
            self._decided |= await self._store.decide(await self._turn(undecided), self._plan)
        permits: list[AuthorizedCall] = []
        waiting = False
        for call in calls:
            if waiting := self._decided[call.id].effect == "ask":
                break  # in the model's order: what comes behind may build on it
            cleared = await self._clear(call, opinions[call.id])
            if isinstance(cleared, ToolResult):
                yield ToolEnded(CallRef(call.id, call.name, call.arguments), cleared)
            else:
                permits.append(cleared)
        notes = {call_id: opinion.note for call_id, opinion in opinions.items()}
        async with aclosing(use_tools(permits, journal=self._store, abort=self._abort, notes=notes)) as events:
            async for event in events:
                yield event
        if waiting:
            yield Parked("approval")

    async def _turn(self, calls: Sequence[ToolCallAsked]) -> Turn:
        """Everything that is known about the calls of one turn before the transaction that decides about them."""
        opinions = self._judged(calls)
        hooked = await self._hooked(calls)
        plans = {call.id: plan for call in hooked if (plan := await self._planned(call, opinions[call.id]))}
        return Turn(hooked, plans, opinions)

    async def _planned(self, call: ToolCallAsked, opinion: Opinion) -> Planned | Supervision | None:
        """What a supervised call would do. What will not run anyway is not planned, so that nobody is asked about it."""
        tool = self._plan.toolset.get(call.name)
        if tool is None or tool.plan is None:
            return None
        if call.error:
            return Supervision("deny", _unreadable(call.error), code="invalid_arguments")
        if blocked := self._blocked.get(call.id):
            return Supervision("deny", blocked.result.text, code="blocked_by_hook")
        if opinion.refuse:
            return Supervision("deny", refusal(call.name, opinion).text, code="loop_detected")
        made: Planned | Supervision = await planned(tool, CallRef(call.id, call.name, call.arguments))
        return made

    def _judged(self, calls: Sequence[ToolCallAsked]) -> dict[str, Opinion]:
        """What the loop guard thinks of the calls of one turn, as the model made them, whether they will run or not."""
        steps, judged = steps_taken(self._messages), {}
        for call in calls:
            tool = self._plan.toolset.get(call.name)
            judged[call.id] = judge(call.name, call.arguments, steps, polls=bool(tool and tool.polls))
            steps.append(pending(call.name, call.arguments, steps))
        return judged

    async def _hooked(self, calls: Sequence[ToolCallAsked]) -> list[ToolCallAsked]:
        """The calls as the plugins' hooks leave them, which is how they are judged, recorded and run. Blocks are remembered."""
        hooked = []
        for call in calls:
            tool = self._plan.toolset.get(call.name)
            if call.error or tool is None:
                hooked.append(call)
                continue
            # Under the names that the tool knows: a hook that looks for `path` must not miss a `file_path`.
            call = replace(call, arguments=with_own_names(call.name, call.arguments, tool.parameters))
            asked = HookCall(call.name, call.arguments, self._plan.agent.slug, self.claimed.session_key)
            match await run_hooks(asked, self._plan.hooks):
                case Changed(arguments):
                    call = replace(call, arguments=arguments)
                case Blocked() as blocked:
                    self._blocked[call.id] = blocked
            hooked.append(call)
        return hooked

    async def _clear(self, call: ToolCallAsked, opinion: Opinion) -> AuthorizedCall | ToolResult:
        """The permit for a call; or what is told in place of its result, and stored."""
        authorization = self._decided[call.id]
        if authorization.permit is None:
            return authorization.refusal
        if call.error:
            result = text_result(_unreadable(call.error), is_error=True)
        elif blocked := self._blocked.get(call.id):
            result = blocked.result
        elif opinion.refuse:
            result = refusal(call.name, opinion)
        else:
            return authorization.permit
        result = told_instead(call.name, result, opinion)
        await self._store.not_run(call, result)
        return result

    async def _failed(self, fault: Exception) -> None:
        reference = uuid.uuid4().hex[:8]
        log.error("run %d failed unexpectedly (reference %s)", self.claimed.pk, reference, exc_info=fault)
        await self._end(Run.Status.FAILED, "internal", f"an internal error ended the run (reference {reference})")

    async def _end(self, to: Run.Status, reason: str, error: str = "") -> None:
        await self._settle(self._store.end(to, reason, error))

    async def _settle(self, writing: Awaitable[None]) -> None:
        """Store how it ended or why it waits; whoever cancels us a second time does not keep it from being written."""
        ending = asyncio.ensure_future(writing)
        ending.add_done_callback(lambda done: done.cancelled() or done.exception())  # seen, also when nobody waits any more
        try:
            await asyncio.shield(ending)
        except LeaseLost as lost:
            log.info("%s; it had ended already", lost)
        except ClawError as fault:
            self.abandoned = isinstance(fault, Unavailable)
            log.warning("the end of run %d could not be written (%s); the worker that takes it over will", self.claimed.pk, fault)


def _unreadable(error: str) -> str:
    return f"the arguments could not be read: {error}. Send them as one JSON object."


def _new_id() -> str:
    return uuid.uuid4().hex[:16]
