"""Stored verdicts and their rules in the reader's language. tools_app.policy writes them, in English, into the trace of a call."""

import re
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

WITH_NAME = {
    "deny entry": gettext_lazy("deny entry `%s`"),
    "allow entry": gettext_lazy("allow entry `%s`"),
    "also allow entry": gettext_lazy("also allow entry `%s`"),
    "profile": gettext_lazy("profile `%s`"),
    "default profile": gettext_lazy("default profile `%s`"),
    "unknown profile": gettext_lazy("unknown profile `%s`"),
}
PLAIN = {
    "no limit": gettext_lazy("no limit"),
    "no rule": gettext_lazy("no rule"),
    "no allow entry matches": gettext_lazy("no allow entry matches"),
    "open to everybody": gettext_lazy("open to everybody"),
    "only for the owner": gettext_lazy("only for the owner"),
    "subagent list": gettext_lazy("subagent list"),
    "sandbox list": gettext_lazy("sandbox list"),
    "allow list ignored, as it names only plugins": gettext_lazy("allow list ignored, as it names only plugins"),
}


def rule_words(rule: str) -> str:
    """Such as "profile `coding`: allow entry `group:fs`"; what is not known here stays as it was written."""
    said, _colon, rest = rule.partition(": ")
    return _("%(source)s: %(rule)s") % {"source": _part(said), "rule": _part(rest)} if rest else _part(said)


def _part(part: str) -> str:
    if part in PLAIN:
        return str(PLAIN[part])
    found = re.fullmatch(r"(.+) `(.+)`", part)
    return str(WITH_NAME[found[1]] % found[2]) if found and found[1] in WITH_NAME else part


def decision_words(verdict: Mapping[str, Any]) -> str:
    """The sentence of sessions_app.verdicts.verdict_of, which is for programs, in the reader's language."""
    if "rule" not in verdict:
        return _("allowed: no layer refuses it") if verdict["allowed"] else _("not offered in this run")
    if verdict["allowed"]:
        return _("allowed by layer %(layer)s: %(rule)s") % {"layer": verdict["layer"], "rule": rule_words(verdict["rule"])}
    return _("refused by layer %(layer)s: %(rule)s") % {"layer": verdict["layer"], "rule": rule_words(verdict["rule"])}
