"""The answer of the explanation page: every tool with what the gate and the nine layers say, now and with a draft."""

from collections.abc import Iterable
from dataclasses import dataclass

from agents.prepare.effective_tools import find_unavailable_tools
from clawsite.web.policies.labels import (
    EFFECT_LABELS,
    LAYER_LABELS,
    Label,
    explain_denial,
    layer_label,
    scope_label,
    short_rule,
    step_text,
    unavailable_text,
)
from clawsite.web.policies.query import ExplainQuery
from tools_app.policy.chain import OWNER_LAYER, PolicyStep, Verdict, evaluate
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.policy_store.vocabulary import first_group


@dataclass(frozen=True, slots=True)
class LayerCell:
    """What one layer says about one tool. `edit` leads to the rule behind it, `add` to where one could be written."""

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
    was: Label = ""  # the effect without the draft, where it is another one


@dataclass(frozen=True, slots=True)
class ToolRow:
    name: str
    group: str
    kept: bool
    was_kept: bool
    missing: str  # why it would not be offered, whatever the policy says
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
    address: str  # to edit or to add the rule of this place; empty where there can be none
    exists: bool


@dataclass(frozen=True, slots=True)
class ExplainTable:
    columns: tuple[LayerColumn, ...]
    rows: tuple[ToolRow, ...]  # those that are shown
    total: int
    kept: int
    missing: int  # of those that are kept
    opened: int  # refused now, kept with the draft
    closed: int
    groups: tuple[str, ...]
    flipped: tuple[ToolRow, ...]  # whatever is shown
    model: str  # that it was asked with


def build_table(question: ExplainQuery, rules: PolicyRules, drafted: PolicyRules | None = None, *, reader_id: int) -> ExplainTable:
    """By the rules in force, or by the drafted ones beside them; as if the reader owned the session."""
    query = question.query()
    before = evaluate(query, rules)
    after = evaluate(query, drafted) if drafted else before
    linked = _RuleLinks(question, drafted or rules, query.model_label if query.provider else "")
    missing = {name: unavailable_text(reason) for name, reason in find_unavailable_tools(query, reader_id).items()}
    rows = [_build_row(facts, before, after, linked, missing.get(facts.name, "")) for facts in query.tools]
    return ExplainTable(
        columns=tuple(linked.columns()),
        rows=tuple(row for row in rows if _matches_filter(row, question)),
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
    """A recorded trace, with links to the rules as they stand now."""
    linked = _RuleLinks(ExplainQuery.from_query(query) if query else ExplainQuery(), rules, query.model_label if query else "")
    return _build_cells(tuple(steps), (), linked)


class _RuleLinks:
    """From a step to the rule behind it, or to where one could be."""

    def __init__(self, question: ExplainQuery, rules: PolicyRules, model: str) -> None:
        self.question = question
        self.rows = {row.key: row for row in rules.rows}
        self.places = {layer: question.scope_for_layer(layer, model) for layer in LAYER_LABELS}
        self.adds = {layer: question.edit_address(place) if place else "" for layer, place in self.places.items()}

    def edit(self, key: str) -> str:
        row = self.rows.get(key)
        return self.question.edit_address(row) if row else ""

    def place(self, key: str) -> str:
        row = self.rows.get(key)
        return scope_label(row) if row else ""

    def columns(self) -> Iterable[LayerColumn]:
        for number, (layer, title) in enumerate(LAYER_LABELS.items()):
            place: RuleRow | None = self.places[layer]
            yield LayerColumn(layer, title, number, self.adds[layer], place is not None and place.key in self.rows)


def _build_row(facts: ToolFacts, before: Verdict, after: Verdict, linked: _RuleLinks, missing: str) -> ToolRow:
    refused = after.refused_by(facts.name)
    return ToolRow(
        name=facts.name,
        group=first_group(facts),
        kept=refused is None,
        was_kept=before.refused_by(facts.name) is None,
        missing=missing,
        why=missing if missing and refused is None else explain_denial(refused),
        cells=_build_cells(after.trace[facts.name], before.trace[facts.name], linked),
    )


def _build_cells(steps: tuple[PolicyStep, ...], before: tuple[PolicyStep, ...], linked: _RuleLinks) -> tuple[LayerCell, ...]:
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
            words=step_text(step),
            row=step.row,
            place=linked.place(step.row),
            edit=linked.edit(step.row),
            add="" if step.layer == OWNER_LAYER else linked.adds.get(step.layer, ""),
            deciding=step.layer == deciding,
            was=EFFECT_LABELS[was[step.layer]] if was.get(step.layer, step.effect) != step.effect else "",
        )
        for number, step in enumerate(steps)
    )


def _matches_filter(row: ToolRow, question: ExplainQuery) -> bool:
    filters = {"refused": not row.kept, "kept": row.kept, "missing": row.kept and bool(row.missing), "changed": row.changed}
    wanted = filters.get(question.show, True)
    return wanted and question.tool.lower() in row.name.lower() and question.of in ("", row.group)
