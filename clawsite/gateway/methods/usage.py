"""Usage: tokens and cost by day, session and provider. For the caller, or for all users with the permission.

A run counts for the user who started it, on the day it was accepted. Tokens from a provider's cache count as input, so
`cacheRead` and `cacheWrite` are 0.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NotRequired
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db.models import Min, QuerySet
from pydantic import Field
from typing_extensions import TypedDict

from agents.prepare.model_choice import list_offered_models
from clawsite.gateway.protocol.params import Id, Params
from clawsite.gateway.protocol.scopes import Scope, has_scope
from clawsite.gateway.protocol.usage import Totals, to_aggregates, to_session_row, to_totals
from clawsite.gateway.server.registry import Call, Nothing, method
from clawsite.gateway.server.session_address import ByKey, find_session
from clawsite.infra import clock, db
from clawsite.infra.errors import Forbidden, InvalidRequest
from sessions_app.models import Run, Session
from sessions_app.reports import operations as operation_reports
from sessions_app.reports import usage as usage_reports
from sessions_app.reports.operations import UsageReport, aggregate_usage, filter_accepted_between

Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
RANGES = {"7d": 7, "30d": 30, "90d": 90, "1y": 365}
DEFAULT_DAYS = 30
MAX_DAYS = 3_660
YEARS = range(1970, 9000)  # within datetime's limits, even after adding days or a time zone


class Period(Params):
    """The last 30 days by default. Days are in UTC, or with mode `specific` in `timeZone` or `utcOffset`.

    `everybody` needs operator.admin or the permission to see all sessions.
    """

    start_date: Day | None = None
    end_date: Day | None = None
    agent_id: Id | None = None
    agent_scope: Literal["all"] | None = None  # all agents unless `agentId` is set
    mode: Literal["utc", "gateway", "specific"] = "utc"  # `gateway` also means UTC
    time_zone: str | None = Field(None, min_length=1, max_length=64)
    utc_offset: str | None = Field(None, pattern=r"^UTC[+-]\d{1,2}(?::[0-5]\d)?$")
    everybody: bool = False

    @property
    def zone(self) -> dt.tzinfo:
        if self.mode != "specific":
            return dt.UTC
        if self.time_zone:
            try:
                return ZoneInfo(self.time_zone)
            except (ZoneInfoNotFoundError, ValueError):
                raise InvalidRequest(f"unknown time zone {self.time_zone!r}: use a name such as Europe/Paris") from None
        hours, _, minutes = (self.utc_offset or "UTC+0").removeprefix("UTC").partition(":")
        if abs(int(hours)) > 14:
            raise InvalidRequest(f"invalid UTC offset {self.utc_offset}: use at most 14 hours")
        sign = -1 if hours.startswith("-") else 1
        return dt.timezone(sign * dt.timedelta(hours=abs(int(hours)), minutes=int(minutes or 0)))


class CostParams(Period):
    days: int | None = Field(None, ge=1, le=MAX_DAYS)


class CostAnswer(TypedDict):
    """`daily` has every day of the period, oldest first."""

    updatedAt: int
    days: int
    startDate: str
    endDate: str
    daily: list[dict[str, Any]]
    totals: Totals


@method("usage.cost", scope=Scope.READ)
async def cost(call: Call, params: CostParams) -> CostAnswer:
    """Return tokens and cost per day."""
    return await db.read(_read_cost, call, params)


def _read_cost(call: Call, params: CostParams) -> CostAnswer:
    runs = _filter_runs(call, params)
    first, last = _resolve_period(params, runs, params.days)
    usage = aggregate_usage(runs, first, last, params.zone)
    return CostAnswer(
        updatedAt=clock.now_ms(),
        days=len(usage.days),
        startDate=first.isoformat(),
        endDate=last.isoformat(),
        daily=[{"date": day.isoformat(), **to_totals(used)} for day, used in sorted(usage.days.items())],
        totals=to_totals(usage.total),
    )


class SessionsParams(Period):
    """With a session: its usage by all its users. Otherwise lists the `limit` most recently used sessions."""

    key: str | None = Field(None, min_length=1, max_length=512)
    session_id: Id | None = None
    range: Literal["7d", "30d", "90d", "1y", "all"] | None = None
    group_by: Literal["instance", "family"] | None = None  # ignored: a session stays the same after a reset
    include_historical: bool | None = None
    limit: int = Field(50, ge=1, le=500)
    include_context_weight: bool | None = None  # ignored: not measured


class SessionsAnswer(TypedDict):
    updatedAt: int
    startDate: str
    endDate: str
    sessions: list[dict[str, Any]]
    totals: Totals
    aggregates: dict[str, Any]


@method("sessions.usage", scope=Scope.READ)
async def sessions_usage(call: Call, params: SessionsParams) -> SessionsAnswer:
    """Return tokens, cost, messages and tools of sessions, and totals by day, model, provider and agent."""
    session = None
    if params.key or params.session_id:
        session = await find_session(call, ByKey(key=params.key, session_id=params.session_id, agent_id=params.agent_id).address)
    return await db.read(_read_sessions, call, params, session)


def _read_sessions(call: Call, params: SessionsParams, session: Session | None) -> SessionsAnswer:
    runs = Run.objects.filter(session=session) if session else _filter_runs(call, params)
    first, last = _resolve_period(params, runs, RANGES.get(params.range or ""), everything=params.range == "all")
    usage = aggregate_usage(runs, first, last, params.zone)
    listed = usage_reports.list_session_usage(filter_accepted_between(runs, first, last, params.zone), params.limit, params.zone)
    rows = [to_session_row(each, call.user.pk) for each in listed]
    return SessionsAnswer(
        updatedAt=clock.now_ms(),
        startDate=first.isoformat(),
        endDate=last.isoformat(),
        sessions=rows,
        totals=to_totals(usage.total),
        aggregates=to_aggregates(usage, listed),
    )


class Point(TypedDict):
    timestamp: int
    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    totalTokens: int
    cost: float
    cumulativeTokens: int
    cumulativeCost: float


class SeriesAnswer(TypedDict):
    sessionId: str
    points: list[Point]


MAX_POINTS = 200


@method("sessions.usage.timeseries", scope=Scope.READ)
async def timeseries(call: Call, params: ByKey) -> SeriesAnswer:
    """Return the usage of each of a session's last 200 runs, in order."""
    session = await find_session(call, params.address)
    rows = await db.read(usage_reports.list_run_usage, Run.objects.filter(session=session), MAX_POINTS)
    return SeriesAnswer(sessionId=str(session.generation_id), points=list(_build_points(rows)))


def _build_points(rows: Iterable[Mapping[str, Any]]) -> Iterable[Point]:
    tokens, microusd = 0, 0
    for row in rows:
        used = row["input_tokens"] + row["output_tokens"]
        tokens, microusd = tokens + used, microusd + row["cost_microusd"]
        yield Point(
            timestamp=clock.to_ms(row["accepted_at"]),
            input=row["input_tokens"],
            output=row["output_tokens"],
            cacheRead=0,
            cacheWrite=0,
            totalTokens=used,
            cost=row["cost_microusd"] / 1e6,
            cumulativeTokens=tokens,
            cumulativeCost=microusd / 1e6,
        )


class ProviderUsage(TypedDict):
    """`used` is your usage in 30 days. `windows` is empty, because provider quotas are not read; `error` says so."""

    provider: str
    displayName: str
    windows: list[dict[str, Any]]
    error: NotRequired[str]
    used: Totals


class StatusAnswer(TypedDict):
    updatedAt: int
    providers: list[ProviderUsage]


@method("usage.status", scope=Scope.READ)
async def status(call: Call, params: Nothing) -> StatusAnswer:
    """List the available providers and your usage of each in the last 30 days."""
    return await db.read(_read_status, call)


def _read_status(call: Call) -> StatusAnswer:
    today = clock.now().date()
    usage: UsageReport = aggregate_usage(Run.objects.filter(owner=call.user), today - dt.timedelta(days=DEFAULT_DAYS - 1), today)
    usable = dict.fromkeys(row["provider"] for row in list_offered_models() if row["available"] and row["provider"])
    by_provider = {name: operation_reports.UsageTotals() for name in usable}
    for model, used in usage.models.items():
        by_provider.setdefault(model.partition("/")[0], operation_reports.UsageTotals()).add(used)
    rows = [
        ProviderUsage(provider=name, displayName=name, windows=[], error="quotas are not read from providers", used=to_totals(used))
        for name, used in by_provider.items()
    ]
    return StatusAnswer(updatedAt=clock.now_ms(), providers=rows)


def _filter_runs(call: Call, params: Period) -> QuerySet[Run]:
    runs: QuerySet[Run] = Run.objects.filter(owner=call.user)
    if params.everybody:
        if not (has_scope(call.authority.scopes, Scope.ADMIN) or call.authority.sees_all):
            raise Forbidden("`everybody` needs operator.admin or the permission to see all sessions")
        runs = Run.objects.all()
    return runs.filter(session__agent=params.agent_id) if params.agent_id else runs


def _resolve_period(params: Period, runs: QuerySet[Run], days: int | None, *, everything: bool = False) -> tuple[dt.date, dt.date]:
    last = _parse_day(params.end_date) if params.end_date else clock.now().astimezone(params.zone).date()
    if params.start_date:
        first = _parse_day(params.start_date)
    elif everything:
        oldest = runs.aggregate(oldest=Min("accepted_at"))["oldest"]
        first = min(oldest.astimezone(params.zone).date(), last) if oldest else last
    else:
        first = last - dt.timedelta(days=(days or DEFAULT_DAYS) - 1)
    if first > last or (last - first).days >= MAX_DAYS:
        raise InvalidRequest(f"the period must start before it ends and have at most {MAX_DAYS} days")
    return first, last


def _parse_day(text: str) -> dt.date:
    try:
        day = dt.date.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(f"invalid date {text!r}: use a form such as 2026-02-01") from None
    if day.year not in YEARS:
        raise InvalidRequest(f"date {text!r} is out of range: use a year from {YEARS[0]} to {YEARS[-1]}")
    return day
