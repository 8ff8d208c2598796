"""Translate verdicts, their rules and the reasons why a tool is unavailable. The code that decides writes them in English."""

import re
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from sessions_app.labels.admissions import format_admission

NOT_OFFERED = "toolset"  # replaces the layer's name if no layer denied the tool but the run doesn't have it
RULES_WITH_NAME = {
    "deny entry": gettext_lazy("deny entry `%s`"),
    "allow entry": gettext_lazy("allow entry `%s`"),
    "also allow entry": gettext_lazy("also allow entry `%s`"),
    "profile": gettext_lazy("profile `%s`"),
    "default profile": gettext_lazy("default profile `%s`"),
    "unknown profile": gettext_lazy("unknown profile `%s`"),
    "key": gettext_lazy("key `%s`"),
    "images cannot be shown to the model": gettext_lazy("images cannot be shown to the model `%s`"),
    "made for models of OpenAI, and this one is": gettext_lazy("made for models of OpenAI, and this one is `%s`"),
}
PLAIN_RULES = {
    "no limit": gettext_lazy("no limit"),
    "no rule": gettext_lazy("no rule"),
    "no allow entry matches": gettext_lazy("no allow entry matches"),
    "open to everybody": gettext_lazy("open to everybody"),
    "only for the owner": gettext_lazy("only for the owner"),
    "subagent list": gettext_lazy("subagent list"),
    "sandbox list": gettext_lazy("sandbox list"),
    "webhook list": gettext_lazy("webhook list"),
    "allow list ignored, as it names only plugins": gettext_lazy("allow list ignored, as it names only plugins"),
    "there is no such tool in this run": gettext_lazy("there is no such tool in this run"),
    "the policy refused it when this run began": gettext_lazy("the policy refused it when this run began"),
    "there is no workspace": gettext_lazy("there is no workspace"),
    "commands need a workspace": gettext_lazy("commands need a workspace"),
    "there is nowhere to speak from outside of a run": gettext_lazy("there is nowhere to speak from outside of a run"),
    "notes are read for the owner of the session only": gettext_lazy("notes are read for the owner of the session only"),
    "no search engine is configured": gettext_lazy("no search engine is configured"),
    "set CLAWSITE_SEARXNG_URL or BRAVE_API_KEY": gettext_lazy("set CLAWSITE_SEARXNG_URL or BRAVE_API_KEY"),
    "CLAWSITE_SEARCH_PROVIDER names an unknown search engine": gettext_lazy(
        "CLAWSITE_SEARCH_PROVIDER names an unknown search engine"
    ),
    "CLAWSITE_SEARCH_PROVIDER names a search engine that is not configured": gettext_lazy(
        "CLAWSITE_SEARCH_PROVIDER names a search engine that is not configured"
    ),
    "it could not be made, see the log": gettext_lazy("it could not be made, see the log"),
    "its factory returns nothing that could be called": gettext_lazy("its factory returns nothing that could be called"),
    "its factory makes no plan of what it would do": gettext_lazy("its factory makes no plan of what it would do"),
    "this version does not have it yet": gettext_lazy("this version does not have it yet"),
}

# About the source of a tool: (kind of source, what happened to it) -> text with the source's name.
SOURCE_REASONS = {
    ("plugin", "does not offer it any more"): gettext_lazy("plugin `%s` does not offer it any more"),
    ("plugin", "cannot be used now"): gettext_lazy("plugin `%s` cannot be used now"),
    ("plugin", "was switched off"): gettext_lazy("plugin `%s` was switched off"),
    ("MCP server", "does not offer it any more"): gettext_lazy("MCP server `%s` does not offer it any more"),
    ("MCP server", "cannot be used now"): gettext_lazy("MCP server `%s` cannot be used now"),
    ("MCP server", "was switched off"): gettext_lazy("MCP server `%s` was switched off"),
    ("its source", "was removed"): gettext_lazy("its source `%s` was removed"),
}


def translate_rule(rule: str) -> str:
    """Translate a rule such as "profile `coding`: allow entry `group:fs`"; unknown parts are left in English."""
    said, _colon, rest = rule.partition(": ")
    return (
        _("%(source)s: %(rule)s") % {"source": _translate_part(said), "rule": _translate_part(rest)}
        if rest
        else _translate_part(said)
    )


def _translate_part(part: str) -> str:
    if part in PLAIN_RULES:
        return str(PLAIN_RULES[part])
    if (about := re.fullmatch(r"(.+) `(.+)` (.+)", part)) and (about[1], about[3]) in SOURCE_REASONS:
        return str(SOURCE_REASONS[about[1], about[3]] % about[2])
    found = re.fullmatch(r"(.+) `(.+)`", part)
    return str(RULES_WITH_NAME[found[1]] % found[2]) if found and found[1] in RULES_WITH_NAME else part


def translate_decision(verdict: Mapping[str, Any]) -> str:
    """Describe a verdict of sessions_app.verdicts.build_verdict in the reader's language; its own text is for programs."""
    if admission := verdict.get("admission"):
        return format_admission(admission)
    if "rule" not in verdict:
        return _("allowed: no layer refuses it") if verdict["allowed"] else _("unavailable in this run")
    if verdict["layer"] == NOT_OFFERED:
        return _("not offered in this run: %(rule)s") % {"rule": translate_rule(verdict["rule"])}
    if verdict["allowed"]:
        return _("allowed by layer %(layer)s: %(rule)s") % {"layer": verdict["layer"], "rule": translate_rule(verdict["rule"])}
    return _("refused by layer %(layer)s: %(rule)s") % {"layer": verdict["layer"], "rule": translate_rule(verdict["rule"])}
