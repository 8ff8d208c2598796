"""The tool policy over REST: rules, versions, and why a tool is denied. Read-only: programs can't change the policy."""

from typing import Annotated, Any

from ninja import Path, Router
from typing_extensions import TypedDict

from agents.prepare.effective_tools import find_effective_tools
from clawsite.accounts.models import User
from clawsite.api.http.pagination import CursorText, Limit, Page, decode_cursor, encode_cursor, parse_number
from clawsite.api.http.permissions import ApiRequest, RequireScope
from clawsite.gateway.protocol.reasons import ReasonCode, to_code
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra import clock, db
from clawsite.infra.errors import Forbidden, NotFound
from sessions_app.sessions.service import find_session
from tools_app.models import PolicyVersion
from tools_app.policy.rules import RuleRow
from tools_app.policy_store import policies

router = Router(tags=["policies"])

VIEW_POLICY = "tools_app.view_toolpolicy"  # same as for the pages


class PolicyRow(TypedDict):
    """The rule of one scope. A tool is allowed only if the rules of all matching scopes allow it: docs/policy.md."""

    scope: str
    subject: str
    provider: str
    channel: str
    group: str
    sender: str
    profile: str
    allow: list[str]
    alsoAllow: list[str]
    deny: list[str]


class Policy(TypedDict):
    version: int
    rows: list[PolicyRow]


class PolicyChange(TypedDict):
    version: int
    change: str
    changedBy: str | None
    createdAt: int


@router.get("/policies", response=Policy, auth=RequireScope(Scope.READ, Scope.ADMIN))
async def get_policies(request: ApiRequest) -> Any:
    """Get the current policy."""
    return await db.read(_read_policy, request.auth.user, None)


@router.get("/policies/versions", response=Page[PolicyChange], auth=RequireScope(Scope.READ, Scope.ADMIN))
async def list_versions(request: ApiRequest, limit: Limit = 50, cursor: CursorText = "") -> Any:
    """List policy versions with author and time, newest first."""
    return await db.read(_list_versions, request.auth.user, decode_cursor(cursor, parse_number), limit)


@router.get("/policies/versions/{version}", response=Policy, auth=RequireScope(Scope.READ, Scope.ADMIN))
async def get_version(request: ApiRequest, version: Annotated[int, Path(ge=1, lt=2**31)]) -> Any:
    """Get a policy version."""
    return await db.read(_read_policy, request.auth.user, version)


def _read_policy(user: User, version: int | None) -> Policy:
    _check_may_view(user)
    rules = policies.current_rules() if version is None else policies.rules_at(version)
    return Policy(version=rules.version, rows=[_to_wire_row(row) for row in rules.rows])


def _to_wire_row(row: RuleRow) -> PolicyRow:
    return PolicyRow(
        scope=row.scope,
        subject=row.subject,
        provider=row.provider,
        channel=row.channel,
        group=row.group,
        sender=row.sender,
        profile=row.profile,
        allow=list(row.allow),
        alsoAllow=list(row.also_allow),
        deny=list(row.deny),
    )


def _list_versions(user: User, position: list[Any] | None, limit: int) -> Page[PolicyChange]:
    _check_may_view(user)
    versions = PolicyVersion.objects.select_related("changed_by").order_by("-number")
    rows = list((versions.filter(number__lt=position[0]) if position else versions)[: limit + 1])
    changes = [
        PolicyChange(
            version=row.number,
            change=row.change,
            changedBy=row.changed_by.get_username() if row.changed_by else None,
            createdAt=clock.to_ms(row.created_at),
        )
        for row in rows[:limit]
    ]
    return {"items": changes, "next": encode_cursor(rows[limit - 1].number) if len(rows) > limit else None}


def _check_may_view(user: User) -> None:
    if not user.has_perm(VIEW_POLICY):
        raise Forbidden("you can't view the tool policy; ask an operator")


class LayerStep(ReasonCode):
    layer: str
    effect: str
    rule: str


class Explanation(ReasonCode):
    """`steps` are the results of all policy layers that apply. `reason` says why an allowed tool is unavailable, if it is.

    `code` and `params` are the reason for programs, and in a step its rule.
    """

    tool: str
    offered: bool
    policyVersion: int
    steps: list[LayerStep]
    reason: str | None


@router.get("/sessions/{session_id}/tools/{tool}", response=Explanation, auth=RequireScope(Scope.READ))
async def explain_tool(request: ApiRequest, session_id: str, tool: Annotated[str, Path(max_length=128)]) -> Any:
    """Explain whether your messages in this session can use a tool."""
    return await db.read(_explain_tool, request.auth.user, session_id, tool)


def _explain_tool(user: User, session_id: str, tool: str) -> Explanation:
    effective = find_effective_tools(user, find_session(user, session_id=session_id))
    steps, missing = effective.toolset.verdict.trace.get(tool), effective.toolset.unavailable.get(tool)
    if steps is None:
        raise NotFound(f"there is no tool {tool!r}")
    return Explanation(
        tool=tool,
        offered=tool in effective.toolset.tools,
        policyVersion=effective.rules.version,
        steps=[LayerStep(layer=step.layer, effect=step.effect, rule=step.rule.text, **to_code(step.rule)) for step in steps],
        reason=missing.text if missing else None,
        **(to_code(missing) if missing else ReasonCode()),
    )
