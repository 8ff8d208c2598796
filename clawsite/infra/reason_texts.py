"""Reasons in the reader's language."""

from django.utils.translation import gettext

from clawsite.infra.reasons import Reason, format_text


def translate_reason(reason: Reason) -> str:
    params = {name: translate_reason(value) if isinstance(value, Reason) else value for name, value in reason.params.items()}
    return format_text(gettext(reason.template), params)
