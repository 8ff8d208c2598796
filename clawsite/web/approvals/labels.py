"""Labels for approvals in the reader's language: decisions, access of commands, durations."""

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
from sessions_app.admissions import format_grant_extent
from tools_app.models import Approval, Command, Grant

Label = str | Promise

# Decisions, after the person's name; END_LABELS are for requests without a decider.
DECISION_LABELS: dict[str, Label] = {
    "allow-once": gettext_lazy("approved it once"),
    "allow-for": gettext_lazy("approved it"),
    "allow-always": gettext_lazy("chose “Always allow”"),
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
# For badges and the history filter: the decision, not the command's outcome.
STATUS_LABELS: dict[str, Label] = {
    "pending": gettext_lazy("Pending"),
    "approved": gettext_lazy("Approved"),
    "used": gettext_lazy("Approved"),
    "denied": gettext_lazy("Denied"),
    "expired": gettext_lazy("Expired"),
    "void": gettext_lazy("Canceled"),
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
# Options of “Approve for…”: a duration in seconds, or a number of uses.
DURATION_CHOICES = (
    ("900", gettext_lazy("15 minutes")),
    ("3600", gettext_lazy("1 hour")),
    ("28800", gettext_lazy("8 hours")),
    ("uses", gettext_lazy("a number of uses")),
)


START_GRACE = dt.timedelta(minutes=1)  # after an approval is used; if no command row exists by then, the command never started


def format_span(seconds: float) -> str:
    """Format as 2 d 3 h, 5 h 20 min, 4 min or 30 s."""
    left = max(0, int(seconds))
    if left >= 86400:
        return _("%(days)d d %(hours)d h") % {"days": left // 86400, "hours": left % 86400 // 3600}
    if left >= 3600:
        return _("%(hours)d h %(minutes)d min") % {"hours": left // 3600, "minutes": left % 3600 // 60}
    return _("%(minutes)d min") % {"minutes": left // 60} if left >= 60 else _("%(seconds)d s") % {"seconds": left}


def level_label(level: int) -> str:
    return str(LEVEL_LABELS.get(level, level))


def describe_access(plan: dict[str, Any], writes: list[str], hints: list[str]) -> list[dict[str, Any]]:
    """List what the command can access, with a tone for risky items. Based on the plan, never on the agent's explanation."""
    items = [
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
        items.append({"label": _("In the background"), "value": _("keeps running after the agent’s turn ends"), "tone": "warn"})
    if plan["pty"]:
        items.append({"label": _("Terminal"), "value": _("yes")})
    items += [{"label": _("Writes to"), "value": to_visible_html(path), "path": True, "tone": "warn"} for path in writes]
    items += [{"label": _("Other access"), "value": HINT_LABELS.get(hint, hint), "tone": "warn"} for hint in hints]
    return items


def list_alarms(plan: dict[str, Any], writes: list[str], hints: list[str]) -> list[str]:
    """List risky access in a few words each."""
    items = [_("Network")] if plan["network"] else []
    if plan["background"]:
        items.append(_("In the background"))
    items += [str(HINT_LABELS.get(hint, hint)) for hint in hints]
    if len(writes) == 1:
        items.append(format_html("{} {}", _("Writes to"), to_visible_html(writes[0])))
    elif writes:
        items.append(ngettext("Writes to %(count)d path", "Writes to %(count)d paths", len(writes)) % {"count": len(writes)})
    return items


def describe_decision(decision: str, granted: Mapping[str, Any] | None) -> str:
    """Describe a decision, to follow the person's name, with the duration, use limit and scope of its grant."""
    action = str(DECISION_LABELS.get(decision, decision))
    if not granted:
        return action
    return (
        f"{action} ({format_grant_extent(granted)})"
        if decision == Approval.Decision.ALWAYS
        else f"{action} {format_grant_extent(granted)}"
    )


def describe_grant_terms(terms: dict[str, Any]) -> str:
    """Describe what one of two approvers approved."""
    return describe_decision(terms.get("decision", ""), terms if "scope" in terms else None)


def describe_grant_scope(grant: Grant) -> str:
    """Describe the scope of a grant."""
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
    """Describe what happened after the decision."""
    if command is not None:
        return describe_command(command)
    if approval.status == Approval.Status.APPROVED:
        return ""  # the run is about to resume
    if approval.used_at and clock.now() - approval.used_at < START_GRACE:
        return ""
    return _("not started")


def describe_command(command: Command) -> str:
    """Describe a started command: exit code and duration, or that it is running."""
    if command.status == Command.Status.RUNNING:
        return _("running in the background") if command.background else _("running")
    result = str(command.get_status_display())
    if command.status == Command.Status.EXITED and command.exit_code is not None:
        result = _("exit code %(code)d") % {"code": command.exit_code}
    if command.ended_at is None:
        return result
    duration_ms = (command.ended_at - command.started_at) // dt.timedelta(milliseconds=1)
    return f"{result}, {format_duration(duration_ms)}"
