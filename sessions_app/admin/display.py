"""How runs, tool calls and events are shown: their words' colours and the sentence that says why."""

from django.utils.translation import gettext_lazy

from clawsite.infra.admin.display import Column, link_column, word_column
from sessions_app.labels.rules import decision_words
from sessions_app.models import Outbox, Run, ToolCall
from sessions_app.verdicts import verdict_of

RUN_STATUS = word_column(
    "status",
    gettext_lazy("status"),
    {
        Run.Status.RUNNING: "info",
        Run.Status.WAITING: "warning",
        Run.Status.COMPLETED: "success",
        Run.Status.FAILED: "danger",
    },
)
CALL_STATUS = word_column(
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
OUTBOX_STATUS = word_column("status", gettext_lazy("status"), {Outbox.Status.DELIVERED: "success", Outbox.Status.FAILED: "danger"})
SESSION: Column = link_column("session", gettext_lazy("session"))
RUN: Column = link_column("run", gettext_lazy("run"))
OWNER: Column = link_column("owner", gettext_lazy("owner"))


def decision(call: ToolCall) -> str:
    """What decided about a call, as the run's page says it."""
    return decision_words(verdict_of({name: getattr(call, name) for name in ("name", "status", "refused_by", "verdict")}))
