"""Approval requests as cards. Everything about the command comes from the stored plan and the gate's analysis; the agent's
explanation is kept separate. All cards of a page are loaded together, so 25 cards take as many queries as one.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Prefetch
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import clock
from clawsite.infra.reason_texts import translate_reason
from clawsite.infra.reasons import Reason
from clawsite.web.approvals.labels import (
    END_LABELS,
    STATUS_LABELS,
    STATUS_TONES,
    describe_access,
    describe_decision,
    describe_grant_terms,
    describe_outcome,
    format_span,
    level_label,
    list_alarms,
)
from clawsite.web.visible_text import agent_text_html, command_html, reason_html, to_visible_html
from sessions_app.models import Session, SessionMember
from tools_app.approvals import approvers, expiry
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.allowed_by import describe_granted
from tools_app.exec.gate.types import read_reason
from tools_app.models import Approval, ApprovalVote, Command

SHORT_COMMAND_LENGTH = 80
LONG_COMMAND_LENGTH = 1500  # characters; longer commands show their size


@dataclass(frozen=True, slots=True)
class ChatLink:
    """The chat that made the request. Empty for users who may not read it."""

    title: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalCard:
    approval: Approval
    chat: ChatLink
    why_not: str  # why the reader may not decide; empty if they may
    may_drop: bool
    needed: int = 1  # approvals required
    votes: Sequence[ApprovalVote] = ()
    outcome: str = ""
    typed_into: SafeString | str = ""  # name of the running command that would receive this line as input
    problem: str = ""  # why the last decision was rejected
    plan: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plan", self.approval.plan)

    @property
    def stamp(self) -> str:
        """Return a value that changes whenever the card's content does."""
        approval = self.approval
        return f"{approval.status}-{clock.to_ms(approval.expires_at)}-{len(self.votes)}-{self.needed}-{bool(self.why_not)}"

    @property
    def is_open(self) -> bool:
        return self.approval.is_open

    @property
    def command(self) -> SafeString:
        return command_html(self.plan["line"], self.approval.shown["parts"])

    @property
    def size(self) -> str:
        """Return the length of a long command; empty for short ones."""
        line = self.plan["line"]
        if len(line) <= LONG_COMMAND_LENGTH and line.count("\n") < 12:
            return ""
        return _("%(characters)d characters in %(lines)d lines") % {"characters": len(line), "lines": line.count("\n") + 1}

    @property
    def programs(self) -> list[dict[str, Any]]:
        return [
            {
                "name": to_visible_html(each["name"]),
                "realpath": to_visible_html(each["realpath"]),
                "distrust": reason_html(Reason.from_json(each["distrust"])) if each.get("distrust") else "",
            }
            for each in self.plan["executables"]
        ]

    @property
    def scripts(self) -> list[dict[str, Any]]:
        """List the script files it runs, with the start of their hash. Missing files are omitted."""
        existing = [each for each in self.plan.get("scripts", []) if each["identity"]]
        return [{"path": to_visible_html(each["path"]), "identity": each["identity"][:12]} for each in existing]

    @property
    def about(self) -> SafeString:
        """Return the start of the command for the decision history. Approvers always see the full command."""
        line = self.plan["line"].strip()
        start = line.split("\n", 1)[0][:SHORT_COMMAND_LENGTH]
        return to_visible_html(start if start == line else f"{start}…")

    @property
    def reasons(self) -> list[SafeString]:
        return [reason_html(read_reason(each)) for each in self.approval.shown["reasons"]]

    @property
    def more_reasons(self) -> int:
        """Count the reasons that a collapsed card hides."""
        return max(len(self.approval.shown["reasons"]) - 2, 0)

    @property
    def cwd(self) -> SafeString:
        return to_visible_html(self.plan["cwd"])

    @property
    def touches(self) -> list[dict[str, Any]]:
        shown = self.approval.shown
        return describe_access(self.plan, shown["writes"], shown.get("touches", []))

    @property
    def alarms(self) -> list[str]:
        """List warnings that a collapsed card shows too."""
        shown = self.approval.shown
        alarms = list_alarms(self.plan, shown["writes"], shown.get("touches", []))
        return alarms + [each["name"] for each in self.programs if each["distrust"]]

    @property
    def why(self) -> SafeString:
        return agent_text_html(self.approval.why)

    @property
    def why_is_cut(self) -> bool:
        return len(self.approval.why) >= approval_requests.MAX_EXPLANATION_LENGTH

    @property
    def level(self) -> str:
        return level_label(self.plan["level"])

    @property
    def may(self) -> list[str]:
        return list(self.approval.shown["may"])

    @property
    def stored_always(self) -> list[dict[str, Any]]:
        """List what “Always allow” would store: real paths and the shapes of their arguments."""
        return [
            {
                "pattern": to_visible_html(each["pattern"]),
                "shape": None if each["shape"] is None else to_visible_html(" ".join(each["shape"])),
            }
            for each in self.approval.shown.get("narrow", [])
        ]

    @property
    def not_always(self) -> SafeString | str:
        stored = self.approval.shown.get("notNarrow")
        return reason_html(Reason.from_json(stored)) if stored else ""

    @property
    def expires_ms(self) -> int:
        return clock.to_ms(self.approval.expires_at)

    @property
    def left(self) -> str:
        return format_span((self.approval.expires_at - clock.now()).total_seconds())

    @property
    def is_urgent(self) -> bool:
        return self.is_open and expiry.expires_soon(self.approval, clock.now())

    @property
    def agreed(self) -> list[dict[str, Any]]:
        return [{"name": vote.user.get_full_name(), "at": vote.at, "what": describe_grant_terms(vote.wish)} for vote in self.votes]

    @property
    def tone(self) -> str:
        return STATUS_TONES[self.approval.status]

    @property
    def badge(self) -> str:
        return str(STATUS_LABELS[self.approval.status])

    @property
    def reason(self) -> str:
        """What the approver wrote, or why the system closed it."""
        stored = self.approval.system_reason
        return translate_reason(Reason.from_json(stored)) if stored else self.approval.reason

    @property
    def ended(self) -> str:
        """Return who decided what, in one sentence without the time."""
        approval = self.approval
        if approval.decided_by is None:
            return str(END_LABELS[approval.status])
        action = describe_decision(approval.decision, describe_granted(approval).get("granted"))
        text = _("%(who)s %(did)s") % {"who": approval.decided_by.get_full_name(), "did": action}
        return _("%(decided)s; canceled before it started") % {"decided": text} if approval.status == "void" else text


def load_approvals(queryset: Any) -> list[Approval]:
    """Load approvals with the related rows that cards need."""
    votes = Prefetch("votes", ApprovalVote.objects.select_related("user").order_by("at"))
    return list(queryset.select_related("session", "requester", "decided_by").prefetch_related(votes, "grants"))


def build_cards(user: User, rows: Sequence[Approval]) -> list[ApprovalCard]:
    """Build cards for one reader. The number of queries doesn't depend on the number of rows."""
    candidate, quorums = approvers.ApproverCandidate(user), approvers.find_quorums(rows)
    sessions = {row.session_id for row in rows if row.session_id}
    readable = set(Session.objects.for_user(user).filter(pk__in=sessions).values_list("pk", flat=True)) if sessions else set()
    writable = _find_writable(user, rows)
    started = _find_started_commands(rows)
    running = _find_running_commands(rows)
    return [
        ApprovalCard(
            approval=row,
            chat=_build_chat_link(user, row, readable),
            why_not=candidate.why_not(row.requester_id, quorums[row.pk]),
            needed=quorums[row.pk].people,
            may_drop=row.is_open and row.session_id in writable,
            votes=list(row.votes.all()),
            typed_into=to_visible_html(running.get(row.plan.get("input_to", ""), row.plan.get("input_to", ""))),
            outcome="" if row.is_open else describe_outcome(row, started.get((row.run_id, row.call_id))),
        )
        for row in rows
    ]


def build_card(user: User, row: Approval) -> ApprovalCard:
    return build_cards(user, [row])[0]


def _build_chat_link(user: User, row: Approval, readable: Collection[UUID]) -> ChatLink:
    if row.session is None or row.session_id not in readable:
        return ChatLink()  # the title may quote the chat
    return chat_link_for(user, row.session)


def chat_link_for(user: User, session: Session) -> ChatLink:
    """Build a link for a user who may read the session."""
    key = session.key_for(user.pk)
    return ChatLink(session.label or session.title or key, f"{reverse('chat')}#{key}")


def _find_writable(user: User, rows: Sequence[Approval]) -> set[UUID]:
    own = {row.session.pk for row in rows if row.session and row.session.owner_id == user.pk}
    others = {row.session_id for row in rows if row.session_id} - own
    shared = SessionMember.objects.filter(session__in=others, user=user, role=SessionMember.Role.WRITER) if others else None
    return own | (set(shared.values_list("session_id", flat=True)) if shared is not None else set())


def _find_started_commands(rows: Sequence[Approval]) -> dict[tuple[int | None, str], Command]:
    runs = {row.run_id for row in rows if row.run_id and row.status == Approval.Status.USED}
    if not runs:
        return {}
    columns = ("run_id", "call_id", "status", "exit_code", "background", "started_at", "ended_at")
    return {(each.run_id, each.call_id): each for each in Command.objects.filter(run__in=runs).only(*columns)}


def _find_running_commands(rows: Sequence[Approval]) -> dict[str, str]:
    """Return the names of running commands that would receive input, by ID."""
    targets = {target for row in rows if (target := row.plan.get("input_to"))}
    return {str(pk): name for pk, name in Command.objects.filter(pk__in=targets).values_list("pk", "name")} if targets else {}
