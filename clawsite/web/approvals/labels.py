"""Approvals in the reader's language: what was decided, what a command may touch, how long something lasts."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from clawsite.infra import clock
from clawsite.web.formatting import format_duration
from clawsite.web.visible_text import to_visible_html
from sessions_app.labels.admissions import format_grant_extent
from tools_app.approvals.approvers import LOST_THE_RIGHT, TWO_PEOPLE_REQUIRED
from tools_app.models import Approval, Command, Grant

Label = str | Promise

# What a person did, behind their name; and what became of it without one.
DECISION_LABELS: dict[str, Label] = {
    "allow-once": gettext_lazy("approved it once"),
    "allow-for": gettext_lazy("approved it"),
    "allow-always": gettext_lazy("set it to always allow"),
    "deny": gettext_lazy("denied it"),
    "drop": gettext_lazy("skipped it"),
}
END_LABELS: dict[str, Label] = {
    "expired": gettext_lazy("Expired without a decision"),
    "void": gettext_lazy("Canceled before a decision"),
    "approved": gettext_lazy("Approved"),
    "denied": gettext_lazy("Denied"),
    "used": gettext_lazy("Approved and started"),
}
# The word on its badge, and in the filter of the history: what was decided. What came of it is the outcome.
STATUS_LABELS: dict[str, Label] = {
    "pending": gettext_lazy("Pending"),
    "approved": gettext_lazy("Approved"),
    "used": gettext_lazy("Approved"),
    "denied": gettext_lazy("Denied"),
    "expired": gettext_lazy("Expired"),
    "void": gettext_lazy("Canceled"),
}
# Reasons that the program gives itself, as stored; what people wrote is shown as they wrote it.
REASONS: dict[str, Label] = {
    "nobody answered in time": gettext_lazy("nobody answered in time"),
    "whoever asked for it does not want it any more": gettext_lazy("whoever asked for it does not want it any more"),
    "the run was stopped (rpc)": gettext_lazy("the run was stopped in the chat"),
    "the run was stopped (stop)": gettext_lazy("the run was stopped in the chat"),
    "the run was stopped (session-reset)": gettext_lazy("the chat was reset"),
    "the run was stopped (session-delete)": gettext_lazy("the chat was deleted"),
    LOST_THE_RIGHT: gettext_lazy("who approved it may not approve it any more"),
    TWO_PEOPLE_REQUIRED: gettext_lazy("by now the rules want two people to agree"),
    "the run was stopped (share-ended)": gettext_lazy("whoever asked for it may not write there any more"),
}
STATUS_TONES = {"approved": "good", "used": "good", "denied": "bad", "expired": "warn", "void": "", "pending": "busy"}
ACCESS_LABELS: dict[str, Label] = {
    "none": gettext_lazy("not visible"),
    "ro": gettext_lazy("read-only"),
    "rw": gettext_lazy("read and write"),
}
LEVEL_LABELS: dict[int, Label] = {
    0: gettext_lazy("No sandbox: runs with all permissions of the worker’s account"),
    1: gettext_lazy("Sandbox: landlock"),
    2: gettext_lazy("Sandbox: bubblewrap"),
}
HINT_LABELS: dict[str, Label] = {
    "network": gettext_lazy("program that uses the network"),
    "other processes": gettext_lazy("other processes"),
}
# What can be asked for in “Approve for …”: a duration in seconds, or a number of times.
DURATION_CHOICES = (
    ("900", gettext_lazy("15 minutes")),
    ("3600", gettext_lazy("1 hour")),
    ("28800", gettext_lazy("8 hours")),
    ("uses", gettext_lazy("a number of uses")),
)


START_GRACE = dt.timedelta(minutes=1)  # of its answer being used; after that, a command without a row never began


def format_span(seconds: float) -> str:
    """2 d 3 h, 5 h 20 min, 4 min, 30 s."""
    left = max(0, int(seconds))
    if left >= 86400:
        return _("%(days)d d %(hours)d h") % {"days": left // 86400, "hours": left % 86400 // 3600}
    if left >= 3600:
        return _("%(hours)d h %(minutes)d min") % {"hours": left // 3600, "minutes": left % 3600 // 60}
    return _("%(minutes)d min") % {"minutes": left // 60} if left >= 60 else _("%(seconds)d s") % {"seconds": left}


def level_label(level: int) -> str:
    return str(LEVEL_LABELS.get(level, level))


def describe_access(plan: dict[str, Any], writes: list[str], hints: list[str]) -> list[dict[str, Any]]:
    """What the command can reach, each with how much that should worry. From the plan, never from the agent's words."""
    found = [
        {"label": _("Directory"), "value": to_visible_html(plan["cwd"]), "path": True},
        {
            "label": _("Workspace"),
            "value": ACCESS_LABELS.get(plan["access"], plan["access"]),
            "tone": "warn" if plan["access"] == "rw" else "",
        },
        {"label": _("Network"), "value": _("yes") if plan["network"] else _("none"), "tone": "warn" if plan["network"] else ""},
        {"label": _("Time limit"), "value": format_span(plan["timeout_s"])},
    ]
    if plan["background"]:
        found.append({"label": _("In the background"), "value": _("keeps running after the agent’s turn ends"), "tone": "warn"})
    if plan["pty"]:
        found.append({"label": _("Terminal"), "value": _("yes")})
    found += [{"label": _("Writes to"), "value": to_visible_html(path), "path": True, "tone": "warn"} for path in writes]
    found += [{"label": _("Other access"), "value": HINT_LABELS.get(hint, hint), "tone": "warn"} for hint in hints]
    return found


def list_alarms(plan: dict[str, Any], writes: list[str], hints: list[str]) -> list[str]:
    """What of it is worth a look before one says yes, in a few words each."""
    found = [_("Network")] if plan["network"] else []
    if plan["background"]:
        found.append(_("In the background"))
    found += [str(HINT_LABELS.get(hint, hint)) for hint in hints]
    if len(writes) == 1:
        found.append(format_html("{} {}", _("Writes to"), to_visible_html(writes[0])))
    elif writes:
        found.append(ngettext("Writes to %(count)d path", "Writes to %(count)d paths", len(writes)) % {"count": len(writes)})
    return found


def describe_decision(decision: str, granted: Mapping[str, Any] | None) -> str:
    """What a person did, behind their name, with how long, how often and where it counts from then on."""
    did = str(DECISION_LABELS.get(decision, decision))
    if not granted:
        return did
    return (
        f"{did} ({format_grant_extent(granted)})"
        if decision == Approval.Decision.ALWAYS
        else f"{did} {format_grant_extent(granted)}"
    )


def describe_grant_terms(wish: dict[str, Any]) -> str:
    """What one of two people said yes to."""
    return describe_decision(wish.get("decision", ""), wish if "scope" in wish else None)


def describe_grant_scope(grant: Grant) -> str:
    """Where a grant counts."""
    match grant.scope:
        case Grant.Scope.INSTALLATION:
            return _("everyone")
        case Grant.Scope.AGENT:
            return _("agent %(agent)s") % {"agent": grant.subject}
        case Grant.Scope.SESSION:
            return _("one chat, agent %(agent)s") % {"agent": grant.agent}
        case _:
            return _("directory, agent %(agent)s") % {"agent": grant.agent}


def describe_outcome(approval: Approval, command: Command | None) -> str:
    """What became of it after the answer."""
    if command is not None:
        return describe_command(command)
    if approval.status == Approval.Status.APPROVED:
        return ""  # its run goes on in a moment
    if approval.used_at and clock.now() - approval.used_at < START_GRACE:
        return ""
    return _("not started")


def describe_command(command: Command) -> str:
    """How a started command stands: its end with code and duration, or that it still runs."""
    if command.status == Command.Status.RUNNING:
        return _("running in the background") if command.background else _("running")
    how = str(command.get_status_display())
    if command.status == Command.Status.EXITED and command.exit_code is not None:
        how = _("exit code %(code)d") % {"code": command.exit_code}
    if command.ended_at is None:
        return how
    took = (command.ended_at - command.started_at) // dt.timedelta(milliseconds=1)
    return f"{how}, {format_duration(took)}"
