"""Texts of the reasons why a tool of this app is unavailable in a run. Pure; the tools themselves are expensive to import."""

from clawsite.infra.reasons import gettext_noop as _
from clawsite.infra.reasons import register_reasons

register_reasons(
    {
        "tool.outside_run": _("messages can only be sent during a run"),
        "tool.notes_of_owner": _("notes are only available to the session's owner"),
    }
)
