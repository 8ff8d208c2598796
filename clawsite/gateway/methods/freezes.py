"""Freeze everything, one agent or one run, and resume it: for operators. All users can read what is frozen."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from agents import freezes as stops
from clawsite.accounts.models import User
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.methods.recent_password import require_recent_password
from clawsite.gateway.protocol.event_catalog import Stop
from clawsite.gateway.protocol.params import Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.health import freeze_to_wire
from clawsite.gateway.server.registry import Call, method
from clawsite.gateway.server.session_address import ToSession
from clawsite.infra import db
from clawsite.routing.inbound import SessionAddress, find_session_or_none
from sessions_app.keys import parse_key
from sessions_app.models import Session
from sessions_app.runs import freezes

Reason = Annotated[str, Field(min_length=1, max_length=freezes.MAX_REASON_LENGTH)]


class WhatToStop(Params):
    """`subject` is an agent ID, or the `id` of a run in `runs.list`; empty for `all`."""

    scope: Literal["all", "agent", "run"]
    subject: str = Field("", max_length=freezes.MAX_SUBJECT_LENGTH)
    reason: Reason


class StopAnswer(TypedDict):
    """`created` is false if it was already frozen. `stillWorking` counts runs whose worker has not confirmed yet."""

    stop: Stop
    created: bool
    stillWorking: int


@method("panic.stop", scope=Scope.ADMIN, limited=LimitedTokenRule.HARMLESS)
async def freeze(call: Call, params: WhatToStop) -> StopAnswer:
    """Freeze everything, an agent or a run. No new tool calls start; running work is halted within two seconds and waits."""
    return await db.write(_freeze, call.user, params, alone=True)


def _freeze(user: User, params: WhatToStop) -> StopAnswer:
    freeze, created = stops.freeze(params.scope, params.subject, reason=params.reason, by=user)
    return StopAnswer(stop=freeze_to_wire(freeze), created=created, stillWorking=freezes.count_still_running([freeze]))


class ResumeAnswer(TypedDict):
    stopped: list[Stop]


@method("panic.resume", scope=Scope.ADMIN, limited=LimitedTokenRule.REFUSED)
async def resume(call: Call, params: WhatToStop) -> ResumeAnswer:
    """Resume what was frozen with this scope and subject, unless a wider freeze applies. Returns what is still frozen."""
    await require_recent_password(call)
    return await db.write(_resume, call.user, params)


def _resume(user: User, params: WhatToStop) -> ResumeAnswer:
    freezes.resume(params.scope, params.subject, reason=params.reason, by=user)
    return ResumeAnswer(stopped=[freeze_to_wire(each) for each in freezes.list_active()])


class StatusParams(ToSession):
    """With a session: only freezes that affect it."""


class StatusAnswer(TypedDict):
    """`mayResume` is true if the caller may freeze and resume."""

    stopped: list[Stop]
    stillWorking: int
    mayResume: bool


@method("panic.status", scope=Scope.READ)
async def status(call: Call, params: StatusParams) -> StatusAnswer:
    """List freezes, who set them, and why. Single runs are only shown to those who can see or resume them."""
    named = params.session_key or params.session_id
    return await db.read(_status, call.user, params.address if named else None)


def _status(user: User, address: SessionAddress | None) -> StatusAnswer:
    active = freezes.list_visible(user)
    if address is not None:
        # A session that does not exist yet has no runs, so only freezes of its agent or of everything can apply to it.
        session = find_session_or_none(user, address) or Session(agent=parse_key(address.own_key()).agent)
        active = freezes.list_for_session(session, active)
    stopped = [freeze_to_wire(each) for each in active]
    return StatusAnswer(stopped=stopped, stillWorking=freezes.count_still_running(active), mayResume=freezes.may_freeze(user))
