"""Texts of the reasons why a tool of this app is unavailable and why a run failed. Pure; the tools are expensive to import."""

from clawsite.infra.reasons import gettext_noop as _
from clawsite.infra.reasons import register_reasons

register_reasons(
    {
        "run_error.timeout": _("the run took longer than {seconds} s and was stopped"),
        "run_error.model": _("the model did not answer: {message}"),
        "run_error.turns_used_up": _("turn limit reached ({limit} model calls): raise the agent's turns per run or ask for less"),
        "run_error.unreadable": _("the stored request can't be read; it may come from a newer version"),
        "run_error.internal": _("an internal error ended the run (reference {reference})"),
        "tool.outside_run": _("messages can only be sent during a run"),
        "tool.notes_of_owner": _("notes are only available to the session's owner"),
    }
)
