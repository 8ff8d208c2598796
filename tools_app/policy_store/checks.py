"""Errors and warnings about a policy rule before it is saved. The admin also shows them while the operator types.

An error prevents saving; a warning means that the rule won't do what its author may expect.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext as _

from clawsite.infra.errors import InvalidRequest
from clawsite.infra.reason_texts import translate_reason
from sessions_app.origin import Sender
from tools_app.policy.catalog import PROFILES, SUBAGENT_DENY
from tools_app.policy.evaluation import evaluate
from tools_app.policy.expectations import ANY_OTHER_AGENT
from tools_app.policy.layers import ANY, group_policy, provider_profile_policy, sender_key
from tools_app.policy.matcher import GROUP_PREFIX, classify_entry, compile_entries, has_only_plugins, normalize_entry
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import AGENT, GLOBAL, GROUP, LIST_FIELDS, SANDBOX, SCOPE_FIELDS, SCOPES, SUBAGENT, PolicyRules, RuleRow
from tools_app.policy_store import known_agents
from tools_app.sources.registry import ToolRegistry
from tools_app.sources.tools import load_tools

SLUG_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
PROVIDER_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._:/@-]*)?")
MAX_ENTRIES = 500  # a rule must stay readable
MAX_LENGTHS = {"provider": 200, "group": 200, "sender": 200}  # characters, as in the columns

# The fields that each scope uses; the others must be empty.
FIELDS_BY_SCOPE = {
    GLOBAL: {"provider"},
    AGENT: {"subject", "provider"},
    GROUP: {"channel", "group", "sender"},
    SANDBOX: {"subject"},
    SUBAGENT: set[str](),
}
SCOPES_WITH_PROFILE = {GLOBAL, AGENT}


@dataclass(frozen=True, slots=True)
class PolicyFinding:
    field: str
    message: str
    level: Literal["error", "warning"] = "error"


def validate_row(**fields: Any) -> RuleRow:
    """Return the normalized rule. Raise InvalidRequest with all its errors."""
    rule = normalize_row(**fields)
    if errors := list(find_errors(rule)):
        raise InvalidRequest(" ".join(error.message for error in errors))
    return rule


def normalize_row(**fields: Any) -> RuleRow:
    """Lowercase and strip names and remove duplicate entries. A group's ID is kept as the channel spells it."""
    values: dict[str, Any] = {name: str(fields.get(name, "")).strip() for name in (*SCOPE_FIELDS, "profile")}
    values |= {name: values[name].lower() for name in ("scope", "subject", "provider", "channel", "profile")}
    values["sender"] = sender_key(values["sender"])
    values |= {name: tuple(dict.fromkeys(normalize_entry(entry) for entry in fields.get(name, ()))) for name in LIST_FIELDS}
    return RuleRow(**values)


def parse_entries(text: str) -> list[str]:
    """Split entries as people type them: one per line, or separated by spaces or commas."""
    return [entry for entry in re.split(r"[\s,]+", text) if entry]


def find_errors(rule: RuleRow) -> Iterator[PolicyFinding]:
    """Yield the errors that prevent saving a normalized rule."""
    if rule.scope not in SCOPES:
        yield PolicyFinding(
            "scope", _("Unknown scope “%(scope)s”. Use one of: %(known)s.") % {"scope": rule.scope, "known": ", ".join(SCOPES)}
        )
        return
    yield from _find_scope_errors(rule)
    if rule.profile and rule.profile not in PROFILES:
        yield PolicyFinding(
            "profile",
            _("Unknown tool profile “%(profile)s”. Use one of: %(known)s.")
            % {"profile": rule.profile, "known": ", ".join(PROFILES)},
        )
    if rule.scope not in SCOPES_WITH_PROFILE:
        for name in ("profile", "also_allow"):
            if getattr(rule, name):
                yield PolicyFinding(name, _("Only the scopes “everyone” and “agent” can have a tool profile and “also allow”."))
    known = load_tools()
    for name in LIST_FIELDS:
        entries = getattr(rule, name)
        if len(entries) > MAX_ENTRIES:
            yield PolicyFinding(name, _("More than %(most)d entries. Use groups or patterns.") % {"most": MAX_ENTRIES})
        for entry in entries[:MAX_ENTRIES]:
            if message := _find_entry_error(entry, known):
                yield PolicyFinding(name, message)


def _find_scope_errors(rule: RuleRow) -> Iterator[PolicyFinding]:
    for name in SCOPE_FIELDS[1:]:
        if getattr(rule, name) and name not in FIELDS_BY_SCOPE[rule.scope]:
            yield PolicyFinding(
                name, _("Scope %(scope)s does not use %(field)s. Leave it blank.") % {"scope": rule.scope, "field": name}
            )
    if (rule.scope == AGENT or rule.subject) and not SLUG_PATTERN.fullmatch(rule.subject):
        yield PolicyFinding(
            "subject",
            _("“%(subject)s” is not a valid agent ID. Use lowercase letters, digits, - and _, at most 64 characters.")
            % {"subject": rule.subject},
        )
    if rule.provider and not PROVIDER_PATTERN.fullmatch(rule.provider):
        yield PolicyFinding(
            "provider",
            _("“%(provider)s” is neither a provider, such as `openai`, nor a model, such as `openai/gpt-5`.")
            % {"provider": rule.provider},
        )
    for name, limit in MAX_LENGTHS.items():
        value = getattr(rule, name)
        if len(value) > limit or not value.isprintable():
            yield PolicyFinding(name, _("Use at most %(most)d visible characters.") % {"most": limit})
    if rule.scope == GROUP:
        if not SLUG_PATTERN.fullmatch(rule.channel):
            yield PolicyFinding("channel", _("A group rule needs a channel, such as `telegram`."))
        if not rule.group:
            yield PolicyFinding("group", _("A group rule needs a group: its ID, or `*` for all groups in the channel."))


def _find_entry_error(entry: str, known: ToolRegistry) -> str:
    if not entry:
        return _("An entry is blank.")
    if "*" in entry[:-1]:
        return _("Entry “%(entry)s”: `*` is only allowed at the end.") % {"entry": entry}
    # A pattern may be written before its tools exist. Groups can't be patterns.
    if not known.knows(entry) and (not entry.endswith("*") or entry.startswith(GROUP_PREFIX)):
        return _(
            "Entry “%(entry)s” is not a tool, group or plugin. Write a group as `group:fs` and a family of tools as `sessions_*`."
        ) % {"entry": entry}
    return ""


def find_warnings(rule: RuleRow, rules: PolicyRules) -> Iterator[PolicyFinding]:
    """Yield warnings about effects that a valid rule seems to have but doesn't. `rules` are the rules it would be saved with."""
    if known_agents.is_missing_agent(rule.subject):
        yield PolicyFinding("subject", _("Agent “%(agent)s” does not exist.") % {"agent": rule.subject}, "warning")
    known = load_tools()
    plugins = frozenset(known.plugin_names)
    for name in LIST_FIELDS:
        for entry in getattr(rule, name):
            if entry.endswith("*") and classify_entry(entry, plugins) == "unknown":
                yield PolicyFinding(name, _("“%(entry)s” matches no existing tool.") % {"entry": entry}, "warning")
    # The sandbox and subagent layers apply their lists literally, even if they name only plugins.
    # Disabled plugins count too: once they are enabled, the list is ignored.
    named = (*known.plugin_names, *known.also_known)
    if rule.scope in (GLOBAL, AGENT, GROUP) and has_only_plugins(rule.allow, named):
        message = _(
            "This allowlist names only plugins, so it is ignored; otherwise it would remove every other tool. To add tools, "
            "use “also allow”."
        )
        yield PolicyFinding("allow", message, "warning")
        return
    if rule.also_allow and rule.profile == "full":
        yield PolicyFinding("also_allow", _("The full profile already allows everything."), "warning")
    if rule.scope == GROUP and not rule.sender and rules.group_row(rule.channel, rule.group, ANY):
        yield PolicyFinding("group", _("Never applies: the `*` sender rule of this group takes precedence."), "warning")
        return
    shadowed = list(_find_shadowed_rows(rule, rules))
    yield from shadowed
    if rule.is_empty and not shadowed:
        yield PolicyFinding("scope", _("This rule is empty and has no effect."), "warning")
    after = rules.with_row(rule)
    profiles = [provider_profile_policy(case, after) for case in _iterate_cases(rule, after, ())]
    if rule.also_allow and rule.provider and not any(policy and policy.source for policy in profiles):
        yield PolicyFinding("also_allow", _("“Also allow” adds to a tool profile, and this model has none."), "warning")
        return
    yield from _find_ineffective_entries(rule, after, known)


def _find_shadowed_rows(rule: RuleRow, rules: PolicyRules) -> Iterator[PolicyFinding]:
    """Warn about a rule that this one replaces: a model's rule replaces its provider's, a sender's rule replaces the group's."""
    others = rules.without(rule.scope_values)
    provider, slash, _model = rule.provider.partition("/")
    before = others.find(rule.scope, rule.subject, provider=provider) if slash else None
    if rule.scope == GROUP:
        case = next(_iterate_cases(rule, others, ()))
        policy = group_policy(case, others)
        before = next((row for row in others.rows if policy and row.key == policy.row), None)
    if before is None:
        return
    field, facts = ("provider" if slash else "group"), {"row": before.key}
    if (before.allow or before.deny) and not (rule.allow or rule.deny):
        message = _("This rule replaces `%(row)s` and has no lists, so what that rule allows and denies does not apply here.")
        yield PolicyFinding(field, message % facts, "warning")
    if before.profile and not rule.profile:
        message = _("This rule replaces `%(row)s` and has no tool profile, so the tool profile of that rule does not apply here.")
        yield PolicyFinding(field, message % facts, "warning")


def _find_ineffective_entries(rule: RuleRow, rules: PolicyRules, known: ToolRegistry) -> Iterator[PolicyFinding]:
    """Warn about entries that allow what is still denied to every agent in scope, or deny what is always denied there."""
    always = compile_entries(SUBAGENT_DENY if rule.scope == SUBAGENT else ())
    for entry in rule.deny:
        named = [facts for facts in known.nameable if compile_entries((entry,)).find(facts) is not None]
        if named and all(always.find(facts) is not None for facts in named):
            yield PolicyFinding("deny", _("“%(entry)s” has no effect: subagents never get it.") % {"entry": entry}, "warning")
    cases = list(_iterate_cases(rule, rules, known.plugin_names))
    for name in ("allow", "also_allow"):
        for entry in getattr(rule, name):
            entries = compile_entries((entry,))
            named = [facts for facts in known.nameable if entries.find(facts) is not None]
            verdicts = [evaluate(case.about(named), rules) for case in cases]
            if named and not any(verdict.kept for verdict in verdicts):
                why = translate_reason(verdicts[0].explain(named[0].name))
                yield PolicyFinding(name, _("“%(entry)s” has no effect: %(why)s") % {"entry": entry, "why": why}, "warning")


def _iterate_cases(rule: RuleRow, rules: PolicyRules, plugins: tuple[str, ...]) -> Iterator[PolicyQuery]:
    """Yield the simplest queries this rule applies to: for its agent, or for every agent with rules and one without."""
    provider, _slash, model = rule.provider.partition("/")
    named = dict.fromkeys(row.subject for row in rules.rows if row.scope == AGENT)
    for agent in [rule.subject] if rule.subject else [*named, ANY_OTHER_AGENT]:
        yield PolicyQuery(
            agent,
            is_owner=True,
            is_subagent=rule.scope == SUBAGENT,
            provider=provider,
            model=model,
            channel=rule.channel,
            group=rule.group,
            sender=Sender(id=rule.sender),
            sandboxed=rule.scope == SANDBOX,
            plugins=plugins,
        )
