"""Texts of the decision about a tool call. Pure."""

from clawsite.infra.reasons import gettext_noop as _
from clawsite.infra.reasons import register_reasons
from sessions_app.runs import end_reasons  # noqa: F401

register_reasons(
    {
        "call.allowed": _("allowed by all layers"),
        "call.allowed_by": _("allowed by layer {layer}: {rule}"),
        "call.denied_by": _("denied by layer {layer}: {rule}"),
        "call.unavailable": _("unavailable in this run"),
        "call.unavailable_because": _("unavailable in this run: {rule}"),
        "call.handed_over": _("returned to the client, which runs this tool"),
    }
)
