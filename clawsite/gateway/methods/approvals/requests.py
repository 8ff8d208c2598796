"""Questions about commands over the socket: which are open, the answer to one, and asking one from outside."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.delivery.approval_feed import wait_for_decision
from clawsite.gateway.methods.recent_password import require_recent_password
from clawsite.gateway.protocol.approvals import (
    Answer,
    ApprovalRecord,
    decide_and_read,
    find_record,
    list_open_records,
    openclaw_errors,
    to_record,
)
from clawsite.gateway.protocol.params import Id, Key, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import AnswerWithFollowUp, Call, Nothing, method
from clawsite.infra import db
from clawsite.infra.errors import Forbidden
from tools_app.approvals import external, rule_document
from tools_app.approvals import requests as approval_requests

MAX_LISTED = 200
# Who answers questions need not be allowed to read chats, or to write in them. Which questions are seen, the account decides.
VIEW_SCOPES = (Scope.READ, Scope.APPROVALS)
REQUEST_SCOPES = (Scope.WRITE, Scope.APPROVALS)
NOT_DELIVERED = "everybody who may approve is asked, on the page and on every connection"


class ListParams(Params):
    limit: int = Field(100, ge=1, le=MAX_LISTED)


@method("exec.approval.list", scope=VIEW_SCOPES)
async def list_(call: Call, params: ListParams) -> list[ApprovalRecord]:
    """The open questions, oldest first: all of them for who may approve, those of one's own sessions for everybody else."""
    return await db.read(list_open_records, call.user, limit=params.limit)


class ById(Params):
    id: Id


@method("exec.approval.get", scope=VIEW_SCOPES)
async def get(call: Call, params: ById) -> ApprovalRecord:
    """One question, open or closed."""
    return await db.read(find_record, call.user, params.id)


class ResolveParams(ById, Answer):
    """`planHash` is that of the plan you saw: with it, an answer to anything else is refused. `for` goes with allow-for."""


class ResolveAnswer(TypedDict):
    ok: Literal[True]
    approval: ApprovalRecord


@method("exec.approval.resolve", scope=Scope.APPROVALS, limited=LimitedTokenRule.REFUSED)
async def resolve(call: Call, params: ResolveParams) -> ResolveAnswer:
    """Answer a question. The first answer counts; another one gets CONFLICT and is told whose it was. The same again is fine."""
    return ResolveAnswer(ok=True, approval=await db.write(decide_and_read, call.user, params.id, params, alone=True))


@method("exec.approval.extend", scope=Scope.APPROVALS, limited=LimitedTokenRule.HARMLESS)
async def extend(call: Call, params: ById) -> ResolveAnswer:
    """Leave a question open for as long again, from now on."""
    return await db.write(_extend, call.user, params.id, alone=True)


def _extend(user: Any, approval_id: str) -> ResolveAnswer:
    with openclaw_errors():
        return ResolveAnswer(ok=True, approval=to_record(approval_requests.extend_approval(approval_id, by=user), user))


@method("exec.approval.drop", scope=Scope.WRITE, limited=LimitedTokenRule.HARMLESS)
async def drop(call: Call, params: ById) -> ResolveAnswer:
    """Give up a command that waits in a session you write in; its agent goes on without it."""
    return await db.write(_drop, call.user, params.id, alone=True)


def _drop(user: Any, approval_id: str) -> ResolveAnswer:
    with openclaw_errors():
        return ResolveAnswer(ok=True, approval=to_record(approval_requests.skip_approval(approval_id, by=user), user))


@method("exec.approval.waitDecision", scope=VIEW_SCOPES)
async def wait(call: Call, params: ById) -> ApprovalRecord:
    """The question once it is closed: answered, expired or void."""
    return await wait_for_decision(call.runtime.approval_waits, call.user, params.id)


class RequestParams(Params):
    """A command that you will run yourself. `id` makes it idempotent. `host`, `security`, `ask`, `resolvedPath`, `sessionKey`,
    `runId` and `toolCallId` are the asker's own words, and decide nothing.
    """

    refused: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("commandArgv", "systemRunPlan", "env", "commandSpans"), "people are shown the command line, so give it whole"
        ),
        **dict.fromkeys(("turnSourceChannel", "turnSourceTo", "turnSourceAccountId", "turnSourceThreadId"), NOT_DELIVERED),
        **dict.fromkeys(("approvalReviewerDeviceIds", "requireDeliveryRoute", "deliverToApprovalClientsOnly"), NOT_DELIVERED),
        **dict.fromkeys(
            ("scope", "unavailableDecisions", "suppressDelivery"), "exec rules say who is asked and what may be answered"
        ),
        "warningText": "only the gate warns of a command",
        "nodeId": "exec on nodes is asked for by the agent",
    }

    id: Id | None = None
    command: str = Field(min_length=1, max_length=16_384)
    cwd: str | None = Field(None, max_length=4096)
    host: str | None = Field(None, max_length=64)
    security: str | None = Field(None, max_length=32)
    ask: str | None = Field(None, max_length=32)
    agent_id: Id | None = None
    resolved_path: str | None = Field(None, max_length=4096)
    session_key: Key | None = None
    session_id: Id | None = None
    run_id: str | None = Field(None, max_length=200)
    tool_call_id: str | None = Field(None, max_length=200)
    timeout_ms: int = Field(1_800_000, ge=1_000, le=86_400_000)
    two_phase: bool = False


class RequestAnswer(TypedDict):
    """`decision` is null when nobody answered in time. With `twoPhase` the first answer has `status` accepted and no decision."""

    id: str
    createdAtMs: int
    expiresAtMs: int
    status: NotRequired[Literal["accepted"]]
    decision: NotRequired[str | None]
    reason: NotRequired[str]


@method("exec.approval.request", scope=REQUEST_SCOPES, limited=LimitedTokenRule.HARMLESS)
async def request(call: Call, params: RequestParams) -> RequestAnswer | AnswerWithFollowUp[RequestAnswer]:
    """Ask people about a command of your own. Answered when they have decided; nothing is run here."""
    asked = await db.write(
        external.request_external_approval,
        by=call.user,
        name=params.id or "",
        command=params.command,
        cwd=params.cwd or "",
        agent=params.agent_id or "",
        seconds=params.timeout_ms / 1000,
        alone=True,
    )
    record = await db.read(find_record, call.user, str(asked.pk))
    first = RequestAnswer(id=record["id"], createdAtMs=record["createdAtMs"], expiresAtMs=record["expiresAtMs"])

    async def final() -> RequestAnswer:
        told = await wait_for_decision(call.runtime.approval_waits, call.user, record["id"])
        allowed = told["status"] in ("approved", "used")
        decision = told.get("decision") if allowed or told["status"] == "denied" else None
        return {**first, "decision": decision, "reason": told.get("reason", "")}

    if params.two_phase:
        return AnswerWithFollowUp({**first, "status": "accepted"}, final)
    return await final()


class RulesAnswer(TypedDict):
    """The exec rules as one document. `hash` is the `baseHash` of the next change."""

    path: str
    exists: Literal[True]
    hash: str
    file: dict[str, Any]


@method("exec.approvals.get", scope=Scope.ADMIN, limited=LimitedTokenRule.HARMLESS)
async def get_rules(call: Call, params: Nothing) -> RulesAnswer:
    """The exec rules of the installation and of agents, with their allow lists, as OpenClaw writes them."""
    return await db.read(_read_rules)


class SetRulesParams(Params):
    file: dict[str, Any]
    base_hash: str = Field(max_length=64)


@method("exec.approvals.set", scope=Scope.ADMIN, limited=LimitedTokenRule.REFUSED)
async def set_rules(call: Call, params: SetRulesParams) -> RulesAnswer:
    """Replace them. Only by a person who is signed in with a browser; CONFLICT when somebody changed them since `baseHash`."""
    if call.authority.credential.kind != "cookie":
        raise Forbidden("exec rules are changed by a person who is signed in with a browser, never with a token")
    await require_recent_password(call)
    await db.write(rule_document.replace_rules, params.file, base_hash=params.base_hash, by=call.user, alone=True)
    return await db.read(_read_rules)


def _read_rules() -> RulesAnswer:
    document = rule_document.current_document()
    return RulesAnswer(path="exec rules", exists=True, hash=rule_document.hash_document(document), file=document)
