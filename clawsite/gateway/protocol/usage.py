"""Usage in the form of OpenClaw's pages: totals, and aggregates for a list of sessions."""

from collections import Counter
from typing import Any

from typing_extensions import TypedDict

from clawsite.infra import clock
from sessions_app.reports.operations import UsageReport, UsageTotals
from sessions_app.reports.usage import SessionUsage


class Totals(TypedDict):
    """Usage totals. `totalCost` is in US dollars; models without a known price count as 0."""

    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    totalTokens: int
    totalCost: float
    runs: int
    failedRuns: int


def to_totals(used: UsageTotals) -> Totals:
    return Totals(
        input=used.input_tokens,
        output=used.output_tokens,
        cacheRead=0,
        cacheWrite=0,
        totalTokens=used.tokens,
        totalCost=used.cost_microusd / 1e6,
        runs=used.runs,
        failedRuns=used.failed,
    )


def to_session_row(usage: SessionUsage, user_pk: int) -> dict[str, Any]:
    session = usage.session
    used = {
        "sessionId": str(session.generation_id),
        **to_totals(usage.total),
        "firstActivity": clock.to_ms(usage.first) if usage.first else None,
        "lastActivity": clock.to_ms(usage.last) if usage.last else None,
        "activityDates": [day.isoformat() for day in usage.days],
        "dailyBreakdown": [
            {"date": day.isoformat(), "tokens": used.tokens, "cost": used.cost_microusd / 1e6} for day, used in usage.days.items()
        ],
        "messageCounts": _count_messages([usage]),
        "toolUsage": _count_tools([usage]),
        "modelUsage": [_model_row(model, used) for model, used in usage.models.items()],
    }
    return {
        "key": session.key_for(user_pk),
        # Titles contain what the owner wrote, so only the owner sees them.
        "label": (session.label or session.title or None) if session.owner_id == user_pk else None,
        "sessionId": str(session.generation_id),
        "updatedAt": clock.to_ms(session.updated_at),
        "agentId": session.agent,
        "channel": session.channel,
        "model": session.model or None,
        "usage": used,
    }


def to_aggregates(usage: UsageReport, listed: list[SessionUsage]) -> dict[str, Any]:
    """Build the aggregates. Tokens and cost cover the whole period; messages and tools only the listed sessions."""
    providers: dict[str, UsageTotals] = {}
    for model, used in usage.models.items():
        providers.setdefault(model.partition("/")[0], UsageTotals()).add(used)
    channels: dict[str, UsageTotals] = {}
    for each in listed:
        channels.setdefault(each.session.channel, UsageTotals()).add(each.total)
    return {
        "messages": _count_messages(listed),
        "tools": _count_tools(listed),
        "byModel": [_model_row(model, used) for model, used in usage.models.items()],
        "byProvider": [{"provider": name, "count": used.runs, "totals": to_totals(used)} for name, used in providers.items()],
        "byAgent": [{"agentId": name, "totals": to_totals(used)} for name, used in usage.agents.items()],
        "byChannel": [{"channel": name, "totals": to_totals(used)} for name, used in channels.items()],
        "daily": [
            {"date": day.isoformat(), "tokens": used.tokens, "cost": used.cost_microusd / 1e6, "runs": used.runs}
            for day, used in sorted(usage.days.items())
        ],
    }


def _model_row(model: str, used: UsageTotals) -> dict[str, Any]:
    provider, _, name = model.partition("/")
    return {"provider": provider, "model": name or provider, "count": used.runs, "totals": to_totals(used)}


def _count_messages(listed: list[SessionUsage]) -> dict[str, int]:
    messages: Counter[str] = sum((each.messages for each in listed), Counter())
    return {
        "total": messages.total(),
        "user": messages["user"],
        "assistant": messages["assistant"],
        "toolCalls": sum(each.tools.total() for each in listed),
        "toolResults": messages["toolResult"],
        "errors": sum(each.tool_errors + each.total.failed for each in listed),
    }


def _count_tools(listed: list[SessionUsage]) -> dict[str, Any]:
    called: Counter[str] = sum((each.tools for each in listed), Counter())
    return {
        "totalCalls": called.total(),
        "uniqueTools": len(called),
        "tools": [{"name": name, "count": count} for name, count in called.most_common(50)],
    }
