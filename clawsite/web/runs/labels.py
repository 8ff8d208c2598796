"""Labels for run and tool call codes on server-rendered pages. templates/shared/_reason_texts.html has them for the scripts."""

from django.utils.translation import gettext_lazy

from clawsite.infra.reason_texts import translate_reason
from clawsite.infra.reasons import Reason
from sessions_app.models import Run
from sessions_app.runs.end_reasons import end_reason

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


def run_error_label(run: Run) -> str:
    """Return the error of a failed run. Old rows only have the English text."""
    return translate_reason(Reason.from_json(run.error_reason)) if run.error_reason else run.error


def run_reason_label(code: str | None) -> str:
    """Return why a run ended or is waiting."""
    return translate_reason(end_reason(code)) if code else ""
