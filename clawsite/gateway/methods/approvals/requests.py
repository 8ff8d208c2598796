"""Methods for approval requests: list pending ones, decide one, and request approval for an external command."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.delivery.approval_feed import wait_for_decision
from clawsite.gateway.methods.recent_password import require_recent_password
from clawsite.gateway.protocol.approvals.decisions import Answer, decide_and_read
from clawsite.gateway.protocol.approvals.records import ApprovalRecord, find_record, list_open_records, openclaw_errors, to_record
from clawsite.gateway.protocol.params import Id, Key, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import AnswerWithFollowUp, Call, Nothing, method
from clawsite.infra import db
from clawsite.infra.errors import Forbidden
from tools_app.approvals import external, rule_document
from tools_app.approvals import requests as approval_requests

MAX_LISTED = 200
# Approvers need not be able to read or write sessions. Which requests they see depends on the account.
VIEW_SCOPES = (Scope.READ, Scope.APPROVALS)
REQUEST_SCOPES = (Scope.WRITE, Scope.APPROVALS)
NOT_DELIVERED = "all approvers are notified, on the page and on every connection"


class ListParams(Params):
    limit: int = Field(100, ge=1, le=MAX_LISTED)


@method("exec.approval.list", scope=VIEW_SCOPES)
async def list_(call: Call, params: ListParams) -> list[ApprovalRecord]:
    """List pending approval requests, oldest first: all for approvers, those of their own sessions for other users."""
    return await db.read(list_open_records, call.user, limit=params.limit)


class ById(Params):
    id: Id


@method("exec.approval.get", scope=VIEW_SCOPES)
async def get(call: Call, params: ById) -> ApprovalRecord:
    """Return an approval request, pending or closed."""
    return await db.read(find_record, call.user, params.id)


class ResolveParams(ById, Answer):
    """`planHash` is that of the plan you saw; a decision about any other plan is rejected. `for` is used with allow-for."""


class ResolveAnswer(TypedDict):
    ok: Literal[True]
    approval: ApprovalRecord


@method("exec.approval.resolve", scope=Scope.APPROVALS, limited=LimitedTokenRule.REFUSED)
async def resolve(call: Call, params: ResolveParams) -> ResolveAnswer:
    """Decide an approval request. The first decision counts; a different one gets a CONFLICT that says who decided. Idempotent."""
    return ResolveAnswer(ok=True, approval=await db.write(decide_and_read, call.user, params.id, params, alone=True))


@method("exec.approval.extend", scope=Scope.APPROVALS, limited=LimitedTokenRule.HARMLESS)
async def extend(call: Call, params: ById) -> ResolveAnswer:
    """Extend an approval request by its original duration, counted from now."""
    return await db.write(_extend, call.user, params.id, alone=True)


def _extend(user: Any, approval_id: str) -> ResolveAnswer:
    with openclaw_errors():
        return ResolveAnswer(ok=True, approval=to_record(approval_requests.extend_approval(approval_id, by=user), user))


@method("exec.approval.drop", scope=Scope.WRITE, limited=LimitedTokenRule.HARMLESS)
async def drop(call: Call, params: ById) -> ResolveAnswer:
    """Skip a pending command in a session you can write in; the agent continues without it."""
    return await db.write(_drop, call.user, params.id, alone=True)


def _drop(user: Any, approval_id: str) -> ResolveAnswer:
    with openclaw_errors():
        return ResolveAnswer(ok=True, approval=to_record(approval_requests.skip_approval(approval_id, by=user), user))


@method("exec.approval.waitDecision", scope=VIEW_SCOPES)
async def wait(call: Call, params: ById) -> ApprovalRecord:
    """Wait until an approval request is closed: decided, expired or canceled."""
    return await wait_for_decision(call.runtime.approval_waits, call.user, params.id)


class RequestParams(Params):
    """A command that you will run yourself. `id` makes the request idempotent. `host`, `security`, `ask`, `resolvedPath`,
    `sessionKey`, `runId` and `toolCallId` are for information only.
    """

    refused: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("commandArgv", "systemRunPlan", "env", "commandSpans"), "approvers see the command line, so send it in full"
        ),
        **dict.fromkeys(("turnSourceChannel", "turnSourceTo", "turnSourceAccountId", "turnSourceThreadId"), NOT_DELIVERED),
        **dict.fromkeys(("approvalReviewerDeviceIds", "requireDeliveryRoute", "deliverToApprovalClientsOnly"), NOT_DELIVERED),
        **dict.fromkeys(
            ("scope", "unavailableDecisions", "suppressDelivery"), "exec rules determine the approvers and possible decisions"
        ),
        "warningText": "only the server adds warnings to a command",
        "nodeId": "agents request approval for exec on nodes",
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
    """`decision` is null if the request expired or was canceled. With `twoPhase` the first response has `status` accepted."""

    id: str
    createdAtMs: int
    expiresAtMs: int
    status: NotRequired[Literal["accepted"]]
    decision: NotRequired[str | None]
    reason: NotRequired[str]


@method("exec.approval.request", scope=REQUEST_SCOPES, limited=LimitedTokenRule.HARMLESS)
async def request(call: Call, params: RequestParams) -> RequestAnswer | AnswerWithFollowUp[RequestAnswer]:
    """Request approval for your own command. The response is sent after the decision; the command is not run here."""
    approval = await db.write(
        external.request_external_approval,
        by=call.user,
        name=params.id or "",
        command=params.command,
        cwd=params.cwd or "",
        agent=params.agent_id or "",
        seconds=params.timeout_ms / 1000,
        alone=True,
    )
    record = await db.read(find_record, call.user, str(approval.pk))
    first = RequestAnswer(id=record["id"], createdAtMs=record["createdAtMs"], expiresAtMs=record["expiresAtMs"])

    async def final() -> RequestAnswer:
        closed = await wait_for_decision(call.runtime.approval_waits, call.user, record["id"])
        allowed = closed["status"] in ("approved", "used")
        decision = closed.get("decision") if allowed or closed["status"] == "denied" else None
        return {**first, "decision": decision, "reason": closed.get("reason", "")}

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
    """Return the exec rules of the server and of agents, with their allowlists, in OpenClaw's form."""
    return await db.read(_read_rules)


class SetRulesParams(Params):
    file: dict[str, Any]
    base_hash: str = Field(max_length=64)


@method("exec.approvals.set", scope=Scope.ADMIN, limited=LimitedTokenRule.REFUSED)
async def set_rules(call: Call, params: SetRulesParams) -> RulesAnswer:
    """Replace the exec rules. Only for a user signed in with a browser; CONFLICT if the rules have changed since `baseHash`."""
    if call.authority.credential.kind != "cookie":
        raise Forbidden("exec rules can only be changed in a signed-in browser, not with a token")
    await require_recent_password(call)
    await db.write(rule_document.replace_rules, params.file, base_hash=params.base_hash, by=call.user, alone=True)
    return await db.read(_read_rules)


def _read_rules() -> RulesAnswer:
    document = rule_document.current_document()
    return RulesAnswer(path="exec rules", exists=True, hash=rule_document.hash_document(document), file=document)
