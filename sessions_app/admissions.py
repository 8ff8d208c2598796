"""Describe, in the reader's language, what allowed a command and what a decision grants. Uses the data stored with the call."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

SCOPE_LABELS = {
    "session": gettext_lazy("in this chat"),
    "agent": gettext_lazy("for this agent, in all chats"),
    "directory": gettext_lazy("for this agent, in this directory"),
    "installation": gettext_lazy("for everyone"),
}


def format_admission(admission: Mapping[str, Any]) -> str:
    """Describe what allowed a command.

    Examples: "approved once by ada", "allowed by grant #3 from ada, in this chat, until 3 May 2026, 2 p.m., 4 uses left".
    """
    match admission["by"]:
        case "answer":
            return _format_decision(admission)
        case "grant":
            return "; ".join(_format_grant(each) for each in admission["grants"])
        case _:
            return _("allowed by the exec rules, without approval")


def _format_decision(admission: Mapping[str, Any]) -> str:
    who = {"who": admission["person"]}
    granted = admission.get("granted")
    if granted is None:
        return _("approved once by %(who)s") % who
    if admission["decision"] == "allow-always":
        return _("allowed always by %(who)s: %(extent)s") % (who | {"extent": format_grant_extent(granted)})
    return _("approved by %(who)s: %(extent)s") % (who | {"extent": format_grant_extent(granted)})


def _format_grant(grant: Mapping[str, Any]) -> str:
    whose = _("allowed by grant #%(number)d from %(who)s") if grant["person"] else _("allowed by grant #%(number)d")
    words = [whose % {"number": grant["id"], "who": grant["person"]}, str(SCOPE_LABELS[grant["scope"]])]
    if grant["expiresAt"]:
        until = localtime(dt.datetime.fromtimestamp(grant["expiresAt"] / 1000, dt.UTC))
        words.append(_("until %(moment)s") % {"moment": date_format(until, "DATETIME_FORMAT")})
    if grant["usesLeft"] is not None:
        words.append(format_uses_left(grant["usesLeft"]))
    return ", ".join(words)


def format_grant_extent(granted: Mapping[str, Any]) -> str:
    """Describe what a decision grants: "for 15 minutes, in this chat", "once, plus 5 more times within 8 hours, in this chat"."""
    lasts = format_duration(granted["seconds"]) if granted["seconds"] else ""
    where = str(SCOPE_LABELS[granted["scope"]])
    if granted["uses"] is None:
        return _("for %(lasts)s, %(where)s") % {"lasts": lasts, "where": where} if lasts else where
    times = ngettext("once, plus %(count)d more time", "once, plus %(count)d more times", granted["uses"]) % {
        "count": granted["uses"]
    }
    if not lasts:
        return _("%(times)s, %(where)s") % {"times": times, "where": where}
    return _("%(times)s within %(lasts)s, %(where)s") % {"times": times, "lasts": lasts, "where": where}


def format_uses_left(uses: int) -> str:
    return ngettext("%(count)d use left", "%(count)d uses left", uses) % {"count": uses}


def format_duration(seconds: int) -> str:
    """Format a duration in the largest unit that is exact, down to seconds: 90 days, 8 hours, 15 minutes."""
    if seconds % 86400 == 0:
        return ngettext("%(count)d day", "%(count)d days", seconds // 86400) % {"count": seconds // 86400}
    if seconds % 3600 == 0:
        return ngettext("%(count)d hour", "%(count)d hours", seconds // 3600) % {"count": seconds // 3600}
    if seconds % 60 == 0:
        return ngettext("%(count)d minute", "%(count)d minutes", seconds // 60) % {"count": seconds // 60}
    return ngettext("%(count)d second", "%(count)d seconds", seconds) % {"count": seconds}
