"""`claw policy explain`: one line per tool, one tool layer by layer, or everything as JSON. Import after Django is loaded."""

import argparse
import json
import sys
from collections.abc import Mapping
from difflib import get_close_matches

from agents.prepare.effective_tools import find_unavailable_tools, with_agent_model
from clawsite.cli.command import CommandFailed
from clawsite.cli.output import print_table, strip_control_characters
from clawsite.infra.reasons import Reason
from sessions_app.origin import Sender
from tools_app.policy.evaluation import Verdict, evaluate
from tools_app.policy.matcher import PolicyStep, normalize_entry
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy_store import known_agents
from tools_app.policy_store.policies import current_rules
from tools_app.policy_store.vocabulary import with_all_tools

EFFECT_LABELS = {"allow": "allows", "deny": "DENIES", "none": "-"}


def explain(options: argparse.Namespace) -> int:
    rules, query = current_rules(), _build_query(options)
    if options.tool:
        query = query.about(_find_tools(options.tool, query))
    verdict = evaluate(query, rules)
    model = f"with {query.model_label}" + ("" if options.provider else ", the agent's model")
    unavailable = find_unavailable_tools(query, owner_id=0)
    missing = {name: unavailable[name] for name in verdict.kept if name in unavailable}
    if known_agents.is_missing_agent(query.agent):
        print(strip_control_characters(f"There is no agent {query.agent}. An agent with this name would get:"), file=sys.stderr)
    if options.json:
        print(json.dumps(_to_dict(query, verdict, missing, rules.version), ensure_ascii=False, indent=2))
    elif options.tool:
        for name, steps in verdict.trace.items():
            print(
                strip_control_characters(
                    f"{name}: {_explain_tool(name, verdict, missing)} (policy version {rules.version}, {model})"
                )
            )
            print_table((step.layer, EFFECT_LABELS[step.effect], step.rule.text, step.row) for step in steps)
    else:
        print_table(_format_row(name, verdict.refused_by(name), missing.get(name)) for name in verdict.trace)
        allowed = f"{len(verdict.kept)} of {len(verdict.trace)} tools are allowed"
        print(strip_control_characters(f"\n{allowed} by policy version {rules.version}, {model}."))
        if missing:
            print(f"{len(missing)} of them are unavailable, judged by the settings of this shell; workers may have others.")
    return 0


def _format_row(name: str, denied: PolicyStep | None, unavailable: Reason | None) -> tuple[str, str, str]:
    if denied:
        return name, "denied", f"{denied.layer}: {denied.rule}"
    return (name, "unavailable", unavailable.text) if unavailable else (name, "allowed", "")


def _explain_tool(name: str, verdict: Verdict, unavailable: Mapping[str, Reason]) -> str:
    return f"allowed, unavailable: {unavailable[name]}" if name in unavailable else verdict.explain(name).text


def _build_query(options: argparse.Namespace) -> PolicyQuery:
    provider, _slash, model = options.provider.lower().partition("/")
    query = PolicyQuery(
        options.agent.lower(),
        is_owner=not options.not_owner,
        is_subagent=options.subagent,
        provider=provider,
        model=model,
        channel=options.channel.lower(),
        group=options.group,
        sender=Sender(id=options.sender),
        sandboxed=options.sandboxed,
    )
    return with_all_tools(with_agent_model(query))


def _find_tools(tool: str, query: PolicyQuery) -> list[ToolFacts]:
    wanted = normalize_entry(tool)
    matches = [facts for facts in query.tools if facts.name.lower() == wanted]
    if not matches:
        near = get_close_matches(wanted, [facts.name for facts in query.tools], 3)
        hint = f"; did you mean {', '.join(near)}?" if near else "; `claw policy explain --agent …` lists all"
        raise CommandFailed(f"there is no tool {tool!r}{hint}")
    return matches


def _to_dict(query: PolicyQuery, verdict: Verdict, unavailable: Mapping[str, Reason], version: int) -> dict[str, object]:
    conditions = {name: value for name, value in query.to_json().items() if name not in ("tools", "plugins")}
    tools = {
        name: {
            "kept": verdict.refused_by(name) is None,
            "refusedBy": denied.layer if (denied := verdict.refused_by(name)) else None,
            "notOffered": unavailable[name].text if name in unavailable else None,
            "why": _explain_tool(name, verdict, unavailable),
            "trace": [{**step.to_json(), "rule": step.rule.text, **step.rule.to_json()} for step in steps],
        }
        for name, steps in verdict.trace.items()
    }
    return {"policyVersion": version, "query": conditions, "tools": tools}
