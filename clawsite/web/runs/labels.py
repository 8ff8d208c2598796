"""Labels for run and tool call codes on server-rendered pages. templates/shared/_reason_texts.html has them for the scripts."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

STATUS_LABELS = {
    "accepted": gettext_lazy("queued"),
    "running": gettext_lazy("running"),
    "waiting": gettext_lazy("waiting"),
    "completed": gettext_lazy("completed"),
    "error": gettext_lazy("failed"),
    "aborted": gettext_lazy("stopped"),
}
STATUS_TONES = {"running": "busy", "waiting": "warn", "completed": "good", "error": "bad"}

CALL_STATUS_LABELS = {
    "allowed": gettext_lazy("allowed"),
    "refused": gettext_lazy("denied"),
    "waiting": gettext_lazy("waiting"),
    "started": gettext_lazy("running"),
    "finished": gettext_lazy("completed"),
    "failed": gettext_lazy("failed"),
    "interrupted": gettext_lazy("interrupted"),
}
EFFECT_LABELS = {"allow": gettext_lazy("allows"), "deny": gettext_lazy("denies"), "none": gettext_lazy("no limit")}

REASONS = {
    "timeout": gettext_lazy("it timed out"),
    "cut": gettext_lazy("the answer was cut off"),
    "unavailable": gettext_lazy("the model could not be reached"),
    "rate_limit": gettext_lazy("the model’s rate limit was reached"),
    "billing": gettext_lazy("the model provider account is out of credit"),
    "auth": gettext_lazy("the model provider rejected the API key"),
    "context_overflow": gettext_lazy("the chat is too long for the model"),
    "format": gettext_lazy("the model provider rejected the request"),
    "empty": gettext_lazy("the model returned an empty answer"),
    "poisoned": gettext_lazy("its worker crashed repeatedly"),
    "turns_used_up": gettext_lazy("the turn limit was reached"),
    "internal": gettext_lazy("an internal error"),
    "rpc": gettext_lazy("the user stopped it"),
    "stop": gettext_lazy("the user stopped it"),
    "operator": gettext_lazy("an operator stopped it"),
    "withdrawn": gettext_lazy("the message was recalled"),
    "session-reset": gettext_lazy("the chat was reset"),
    "session-delete": gettext_lazy("the chat was deleted"),
    "share-ended": gettext_lazy("its user can no longer write in this chat"),
    "nothing_to_compact": gettext_lazy("there was nothing to summarize"),
    "frozen": gettext_lazy("frozen by an operator"),
    "approval": gettext_lazy("a command needs approval"),
    "child": gettext_lazy("the agent of another chat is working"),
}


def run_reason_label(reason: str | None) -> str | Promise:
    """Return why a run ended or is waiting. Unknown codes are returned unchanged."""
    return REASONS.get(reason or "", reason or "")
