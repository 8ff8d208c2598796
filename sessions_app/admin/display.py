"""Display of runs, tool calls and events: status badge colors and the reason for a decision."""

from django.utils.translation import gettext_lazy

from clawsite.infra.admin.display import Column, badge_column, link_column
from sessions_app.models import Outbox, Run, ToolCall
from sessions_app.verdicts import build_verdict, translate_verdict

RUN_STATUS = badge_column(
    "status",
    gettext_lazy("status"),
    {
        Run.Status.RUNNING: "info",
        Run.Status.WAITING: "warning",
        Run.Status.COMPLETED: "success",
        Run.Status.FAILED: "danger",
    },
)
CALL_STATUS = badge_column(
    "status",
    gettext_lazy("status"),
    {
        ToolCall.Status.STARTED: "info",
        ToolCall.Status.WAITING: "warning",
        ToolCall.Status.FINISHED: "success",
        ToolCall.Status.REFUSED: "danger",
        ToolCall.Status.FAILED: "danger",
        ToolCall.Status.INTERRUPTED: "danger",
    },
)
OUTBOX_STATUS = badge_column("status", gettext_lazy("status"), {Outbox.Status.DELIVERED: "success", Outbox.Status.FAILED: "danger"})
SESSION: Column = link_column("session", gettext_lazy("session"))
RUN: Column = link_column("run", gettext_lazy("run"))
OWNER: Column = link_column("owner", gettext_lazy("owner"))


def format_decision(call: ToolCall) -> str:
    """Describe what decided a tool call, as on the run page."""
    return translate_verdict(build_verdict({name: getattr(call, name) for name in ("name", "status", "refused_by", "verdict")}))
