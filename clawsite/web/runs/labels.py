"""Codes of runs and tool calls in words, for pages that the server makes. templates/_reasons.html has them for the scripts."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

STATUS_WORDS = {
    "accepted": gettext_lazy("queued"),
    "running": gettext_lazy("running"),
    "waiting": gettext_lazy("waiting"),
    "completed": gettext_lazy("done"),
    "error": gettext_lazy("failed"),
    "aborted": gettext_lazy("stopped"),
}
COLOURS = {"running": "busy", "waiting": "warn", "completed": "good", "error": "bad"}

CALL_WORDS = {
    "allowed": gettext_lazy("allowed"),
    "refused": gettext_lazy("refused"),
    "waiting": gettext_lazy("waiting"),
    "started": gettext_lazy("running"),
    "finished": gettext_lazy("done"),
    "failed": gettext_lazy("failed"),
    "interrupted": gettext_lazy("cut off"),
}
EFFECT_WORDS = {"allow": gettext_lazy("allows"), "deny": gettext_lazy("refuses"), "none": gettext_lazy("no limit")}

REASONS = {
    "timeout": gettext_lazy("it took too long"),
    "cut": gettext_lazy("the answer broke off"),
    "unavailable": gettext_lazy("the model could not be reached"),
    "rate_limit": gettext_lazy("the model was asked too often"),
    "billing": gettext_lazy("the account at the model’s provider has no credit"),
    "auth": gettext_lazy("the model’s provider refused the key"),
    "context_overflow": gettext_lazy("the conversation is too long for the model"),
    "format": gettext_lazy("the model’s provider did not accept the request"),
    "empty": gettext_lazy("the model gave an empty answer"),
    "poisoned": gettext_lazy("its worker died several times"),
    "turns_used_up": gettext_lazy("the model came to no end"),
    "internal": gettext_lazy("an internal error"),
    "rpc": gettext_lazy("its user stopped it"),
    "stop": gettext_lazy("its user stopped it"),
    "operator": gettext_lazy("an operator stopped it"),
    "withdrawn": gettext_lazy("its message was taken back"),
    "session-reset": gettext_lazy("the conversation was started anew"),
    "session-delete": gettext_lazy("the conversation was deleted"),
    "share-ended": gettext_lazy("its user may not write there any more"),
    "nothing_to_compact": gettext_lazy("there was nothing to summarise"),
    "frozen": gettext_lazy("an operator stopped it until further notice"),
    "approval": gettext_lazy("somebody has to allow a command"),
}


def reason_words(reason: str | None) -> str | Promise:
    """Why a run ended or waits; a code that is not known here stays as it is."""
    return REASONS.get(reason or "", reason or "")
