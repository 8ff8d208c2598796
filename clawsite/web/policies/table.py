"""The table of the explanation page: the results of the owner check and the nine layers for every tool, now and with a draft."""

from collections.abc import Iterable
from dataclasses import dataclass

from agents.prepare.effective_tools import find_unavailable_tools
from clawsite.infra.reason_texts import translate_reason
from clawsite.web.policies.labels import (
    EFFECT_LABELS,
    LAYER_LABELS,
    Label,
    explain_denial,
    layer_label,
    scope_label,
    short_rule,
    unavailable_text,
)
from clawsite.web.policies.query import ExplainQuery
from tools_app.policy.evaluation import OWNER_LAYER, Verdict, evaluate
from tools_app.policy.matcher import PolicyStep
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.policy_store.vocabulary import first_group


@dataclass(frozen=True, slots=True)
class LayerCell:
    """A layer's result for one tool. `edit` links to its rule, `add` to a draft for a new one."""

    layer: str
    title: str
    number: int
    effect: str
    effect_words: Label
    short: str
    words: str
    row: str
    place: str
    edit: str
    add: str
    deciding: bool
    was: Label = ""  # the effect without the draft, if different


@dataclass(frozen=True, slots=True)
class ToolRow:
    name: str
    group: str
    kept: bool
    was_kept: bool
    missing: str  # why it is unavailable regardless of the policy
    why: str
    cells: tuple[LayerCell, ...]

    @property
    def changed(self) -> bool:
        return self.kept != self.was_kept


@dataclass(frozen=True, slots=True)
class LayerColumn:
    layer: str
    title: Label
    number: int
    address: str  # to edit or add the rule of this scope; empty if there can be none
    exists: bool


@dataclass(frozen=True, slots=True)
class ExplainTable:
    columns: tuple[LayerColumn, ...]
    rows: tuple[ToolRow, ...]  # after filtering
    total: int
    kept: int
    missing: int  # allowed but unavailable
    opened: int  # denied now, allowed with the draft
    closed: int
    groups: tuple[str, ...]
    flipped: tuple[ToolRow, ...]  # regardless of the filter
    model: str  # the query's model


def build_table(
    explain_query: ExplainQuery, rules: PolicyRules, draft_rules: PolicyRules | None = None, *, reader_id: int
) -> ExplainTable:
    """Evaluate with the active rules and, if given, the draft's rules, as if the reader owned the session."""
    query = explain_query.query()
    before = evaluate(query, rules)
    after = evaluate(query, draft_rules) if draft_rules else before
    links = _RuleLinks(explain_query, draft_rules or rules, query.model_label if query.provider else "")
    missing = {name: unavailable_text(reason) for name, reason in find_unavailable_tools(query, reader_id).items()}
    rows = [_build_row(facts, before, after, links, missing.get(facts.name, "")) for facts in query.tools]
    return ExplainTable(
        columns=tuple(links.columns()),
        rows=tuple(row for row in rows if _matches_filter(row, explain_query)),
        total=len(rows),
        kept=sum(row.kept for row in rows),
        missing=sum(row.kept and bool(row.missing) for row in rows),
        opened=sum(row.kept and not row.was_kept for row in rows),
        closed=sum(row.was_kept and not row.kept for row in rows),
        groups=tuple(dict.fromkeys(row.group for row in rows if row.group)),
        flipped=tuple(row for row in rows if row.changed),
        model=query.model_label,
    )


def build_trace_cells(steps: Iterable[PolicyStep], query: PolicyQuery | None, rules: PolicyRules) -> tuple[LayerCell, ...]:
    """Build cells for a recorded trace, with links to the current rules."""
    links = _RuleLinks(ExplainQuery.from_query(query) if query else ExplainQuery(), rules, query.model_label if query else "")
    return _build_cells(tuple(steps), (), links)


class _RuleLinks:
    """Links from a step to its rule, or to a draft for a new one."""

    def __init__(self, explain_query: ExplainQuery, rules: PolicyRules, model: str) -> None:
        self.explain_query = explain_query
        self.rows = {row.key: row for row in rules.rows}
        self.scopes = {layer: explain_query.scope_for_layer(layer, model) for layer in LAYER_LABELS}
        self.adds = {layer: explain_query.edit_address(scope) if scope else "" for layer, scope in self.scopes.items()}

    def edit(self, key: str) -> str:
        row = self.rows.get(key)
        return self.explain_query.edit_address(row) if row else ""

    def scope_label(self, key: str) -> str:
        row = self.rows.get(key)
        return scope_label(row) if row else ""

    def columns(self) -> Iterable[LayerColumn]:
        for number, (layer, title) in enumerate(LAYER_LABELS.items()):
            scope: RuleRow | None = self.scopes[layer]
            yield LayerColumn(layer, title, number, self.adds[layer], scope is not None and scope.key in self.rows)


def _build_row(facts: ToolFacts, before: Verdict, after: Verdict, links: _RuleLinks, missing: str) -> ToolRow:
    denied_by = after.refused_by(facts.name)
    return ToolRow(
        name=facts.name,
        group=first_group(facts),
        kept=denied_by is None,
        was_kept=before.refused_by(facts.name) is None,
        missing=missing,
        why=missing if missing and denied_by is None else explain_denial(denied_by),
        cells=_build_cells(after.trace[facts.name], before.trace[facts.name], links),
    )


def _build_cells(steps: tuple[PolicyStep, ...], before: tuple[PolicyStep, ...], links: _RuleLinks) -> tuple[LayerCell, ...]:
    deciding = next((step.layer for step in steps if step.effect == "deny"), "")
    was = {step.layer: step.effect for step in before}
    return tuple(
        LayerCell(
            layer=step.layer,
            title=layer_label(step.layer),
            number=number,
            effect=step.effect,
            effect_words=EFFECT_LABELS[step.effect],
            short=short_rule(step),
            words=translate_reason(step.rule),
            row=step.row,
            place=links.scope_label(step.row),
            edit=links.edit(step.row),
            add="" if step.layer == OWNER_LAYER else links.adds.get(step.layer, ""),
            deciding=step.layer == deciding,
            was=EFFECT_LABELS[was[step.layer]] if was.get(step.layer, step.effect) != step.effect else "",
        )
        for number, step in enumerate(steps)
    )


def _matches_filter(row: ToolRow, explain_query: ExplainQuery) -> bool:
    filters = {"refused": not row.kept, "kept": row.kept, "missing": row.kept and bool(row.missing), "changed": row.changed}
    matches = filters.get(explain_query.show, True)
    return matches and explain_query.tool.lower() in row.name.lower() and explain_query.of in ("", row.group)
