"""Labels for the policy in the reader's language: layers, scopes, effects, and reasons for a result."""

from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clawsite.infra.reason_texts import translate_reason
from clawsite.infra.reasons import Reason
from tools_app.policy.evaluation import OWNER_LAYER, TOKEN_LAYER
from tools_app.policy.matcher import ONLY_PLUGINS, PolicyStep
from tools_app.policy.rules import AGENT, GLOBAL, GROUP, SANDBOX, SUBAGENT, RuleRow

Label = str | Promise

LAYER_LABELS: dict[str, Label] = {
    OWNER_LAYER: gettext_lazy("Owner"),
    "profile": gettext_lazy("Tool profile"),
    "provider_profile": gettext_lazy("Tool profile, by model"),
    "global": gettext_lazy("Global"),
    "global_provider": gettext_lazy("Global, by model"),
    "agent": gettext_lazy("Agent"),
    "agent_provider": gettext_lazy("Agent, by model"),
    "group": gettext_lazy("Group chat"),
    "sandbox": gettext_lazy("Sandbox"),
    "subagent": gettext_lazy("Subagent"),
}
EFFECT_LABELS: dict[str, Label] = {
    "allow": gettext_lazy("allowed"),
    "deny": gettext_lazy("denied"),
    "none": gettext_lazy("not set"),
}
FIELD_LABELS: dict[str, Label] = {
    "profile": gettext_lazy("tool profile"),
    "allow": gettext_lazy("allow"),
    "deny": gettext_lazy("deny"),
    "also_allow": gettext_lazy("also allow"),
}

# Applies to some runs only, so the table has no column for it.
ACCESS_TOKEN_LABEL = gettext_lazy("Access token")


def layer_label(layer: str) -> str:
    return str(ACCESS_TOKEN_LABEL if layer == TOKEN_LAYER else LAYER_LABELS.get(layer, layer))


def scope_label(row: RuleRow) -> str:
    """Describe the scope of a rule."""
    facts = {"agent": row.subject, "model": row.provider, "channel": row.channel, "group": row.group, "sender": row.sender}
    if row.scope == GLOBAL:
        return _("everyone with %(model)s") % facts if row.provider else _("everyone")
    if row.scope == AGENT:
        return _("agent %(agent)s with %(model)s") % facts if row.provider else _("agent %(agent)s") % facts
    if row.scope == GROUP and row.group == "*":
        return (_("%(sender)s in all groups on %(channel)s") if row.sender else _("all groups on %(channel)s")) % facts
    if row.scope == GROUP:
        return (_("%(sender)s in group %(group)s on %(channel)s") if row.sender else _("group %(group)s on %(channel)s")) % facts
    if row.scope == SANDBOX:
        return _("the sandbox of agent %(agent)s") % facts if row.subject else _("all sandboxes")
    if row.scope == SUBAGENT:
        return _("subagents")
    return row.key


def short_rule(step: PolicyStep) -> str:
    """Return what fits in a table cell: the deciding entry or, if there is none, the rule."""
    if step.effect == "none" and step.rule.code != ONLY_PLUGINS:
        return ""
    return step.rule.params.get("entry") or translate_reason(step.rule)


def unavailable_text(reason: Reason) -> str:
    """Return why a tool is unavailable, as a sentence."""
    return capfirst(translate_reason(reason))


def explain_denial(denied_by: PolicyStep | None) -> str:
    """Explain a tool's result in one sentence."""
    if denied_by is None:
        return _("all layers allow it")
    text = translate_reason(denied_by.rule)
    if "source" in denied_by.rule.params and denied_by.layer != "provider_profile":
        return capfirst(text)  # the source, such as a profile or the sandbox's list, already names the layer
    return _("%(layer)s: %(rule)s") % {"layer": layer_label(denied_by.layer), "rule": text}
