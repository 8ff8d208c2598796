"""Why a run ended or is waiting: the codes of `Run.reason`, with their texts. Pure."""

from clawsite.infra.reasons import Reason, gettext_noop, is_registered, register_reasons

register_reasons(
    {
        "run.timeout": gettext_noop("it timed out"),
        "run.cut": gettext_noop("the answer was cut off"),
        "run.unavailable": gettext_noop("the model could not be reached"),
        "run.rate_limit": gettext_noop("the model’s rate limit was reached"),
        "run.billing": gettext_noop("the model provider account is out of credit"),
        "run.auth": gettext_noop("the model provider rejected the API key"),
        "run.context_overflow": gettext_noop("the chat is too long for the model"),
        "run.format": gettext_noop("the model provider rejected the request"),
        "run.empty": gettext_noop("the model returned an empty answer"),
        "run.poisoned": gettext_noop("its worker crashed repeatedly"),
        "run.turns_used_up": gettext_noop("the turn limit was reached"),
        "run.internal": gettext_noop("an internal error"),
        "run.rpc": gettext_noop("the user stopped it"),
        "run.stop": gettext_noop("the user stopped it"),
        "run.operator": gettext_noop("an operator stopped it"),
        "run.withdrawn": gettext_noop("the message was recalled"),
        "run.session-reset": gettext_noop("the chat was reset"),
        "run.session-delete": gettext_noop("the chat was deleted"),
        "run.share-ended": gettext_noop("its user can no longer write in this chat"),
        "run.nothing_to_compact": gettext_noop("there was nothing to summarize"),
        "run.frozen": gettext_noop("frozen by an operator"),
        "run.approval": gettext_noop("a command needs approval"),
        "run.child": gettext_noop("the agent of another chat is working"),
        "run.answer": gettext_noop("a question needs an answer"),
        "run.budget": gettext_noop("the budget is used up"),
        "run.model": gettext_noop("the model is not available"),
        "run.external": gettext_noop("an external result has not arrived"),
        "run.client-left": gettext_noop("the client disconnected"),
        "run.credential-ended": gettext_noop("its access token is no longer valid"),
        "run.not_found": gettext_noop("something it needs was not found"),
        "run.conflict": gettext_noop("it conflicted with another change"),
        "run.forbidden": gettext_noop("its user does not have permission"),
        "run.invalid_request": gettext_noop("the request is not valid"),
        "run.queue_full": gettext_noop("too many messages are waiting"),
        "run.unreadable": gettext_noop("the stored request can’t be read"),
        "run.other": "{code}",
        "run_error.poisoned": gettext_noop("the worker died {times} times during this run, so it was not tried again"),
    }
)


def end_reason(code: str) -> Reason:
    """Return the reason for a code of `Run.reason`. Codes without a text, such as finish reasons, are shown unchanged."""
    return Reason(f"run.{code}") if is_registered(f"run.{code}") else Reason("run.other", code=code)
