"""Clawsite's targets, and OpenClaw 2026.9.6's results on the same kind of machine (2 vCPU, Debian 12)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.gateway.figures import Result, leaf, median_of, worst_of


@dataclass(frozen=True)
class Promise:
    suite: str
    path: tuple[str, ...]  # keys of the value in the suite's result
    label: str
    unit: str
    limit: float | None = None  # None: reported without a target
    at_least: bool = False
    exact: bool = False  # a count that every repetition must meet, not only the median
    openclaw: float | None = None

    def figure(self, results: Sequence[Result]) -> Any:
        if self.exact:
            return worst_of(results, self.path, largest=not self.at_least)
        return median_of([leaf(result, self.path) for result in results])

    def verdict(self, figure: Any, database: str) -> bool | None:
        """Return whether the target is met, or None if there is none. On PostgreSQL, only exact counts have targets."""
        if self.limit is None or (database != "sqlite" and not self.exact):
            return None
        if not isinstance(figure, int | float):
            return False
        return figure >= self.limit if self.at_least else figure <= self.limit


ONE, FIFTY, HUNDRED, WATCHED = "one_session", "sessions_50", "sessions_100", "clients_300"
STREAMED, PLAIN, TEN_STREAMED, TEN_PLAIN = "stream_sequential", "plain_sequential", "stream_concurrency_10", "plain_concurrency_10"

PROMISES = (
    Promise("policy", ("evaluate", "p99"), "tool policy, 60 tools × 9 layers, 500 rows: p99", "ms", 2),
    Promise("policy", ("authorize", "p50"), "… authorizing one call", "ms"),
    Promise("policy", ("tool set", "p99"), "… a run's tool set, including reading the rules: p99", "ms", 3),
    Promise("coldstart", ("start_to_connect_s",), "process start → first accepted connection", "s", 3, openclaw=12.4),
    Promise("coldstart", ("start_to_first_run_done_s",), "process start → first run finished", "s", openclaw=16.7),
    Promise("coldstart", ("memory_idle", "pss_mb"), "idle memory, all processes (PSS)", "MB", 250, openclaw=1093),
    Promise("coldstart", ("memory_idle", "litellm_loaded"), "processes that loaded litellm", "", 0, exact=True),
    Promise("connect", ("connect_ms", "p50"), "connect and hello", "ms", openclaw=4.6),
    Promise("overhead", (ONE, "req_to_llm_ms", "p50"), "request → model call", "ms", 10, openclaw=242),
    Promise("overhead", (ONE, "ack_ms", "p50"), "acknowledgement", "ms", 5, openclaw=40),
    Promise("overhead", (ONE, "delta_lag_ms", "p50"), "first delta", "ms", 4, openclaw=4.5),
    Promise("overhead", (ONE, "later_delta_lag_ms", "p95"), "later deltas, p95", "ms", 35),
    Promise("overhead", (ONE, "end_lag_ms", "p50"), "last delta → end", "ms", 8, openclaw=32.5),
    Promise("overhead", (ONE, "errors"), "runs that failed", "", 0, exact=True, openclaw=0),
    Promise("throughput", (FIFTY, "runs_per_s"), "runs per second, 50 sessions", "1/s", 100, at_least=True, openclaw=3.15),
    Promise("throughput", (FIFTY, "errors"), "… that failed", "", 0, exact=True, openclaw=0),
    Promise("throughput", (FIFTY, "runs_without_whole_text"), "… with incomplete text", "", 0, exact=True, openclaw=0),
    Promise("throughput", (HUNDRED, "runs_per_s"), "runs per second, 100 sessions", "1/s", at_least=True, openclaw=3.2),
    Promise("throughput", (HUNDRED, "total_ms", "p50"), "… duration of a run, p50", "ms", openclaw=16_162),
    Promise("throughput", (HUNDRED, "total_ms", "p95"), "… p95", "ms", openclaw=30_850),
    Promise("throughput", (HUNDRED, "errors"), "… that failed", "", 0, exact=True, openclaw=0),
    Promise("throughput", (HUNDRED, "runs_without_whole_text"), "… with incomplete text", "", 0, exact=True, openclaw=0),
    Promise("fanout", (WATCHED, "agent", "token_lag_ms", "p95"), "300 clients: lag of every token, p95", "ms", 40),
    Promise("fanout", (WATCHED, "agent", "lag_ms", "p95"), "… newest token of each agent event, p95", "ms"),
    # OpenClaw was measured with its chat events, so compare it with this result.
    Promise("fanout", (WATCHED, "chat", "lag_ms", "p95"), "… newest token of each chat event, p95", "ms", openclaw=47.6),
    Promise("fanout", (WATCHED, "events_lost"), "… events lost", "", 0, exact=True, openclaw=0),
    Promise("fanout", (WATCHED, "seq_gaps"), "… gaps in sequence numbers", "", 0, exact=True, openclaw=0),
    Promise("idle", ("kb_per_socket",), "1,000 idle sockets: memory per socket (PSS)", "KB", 40),
    Promise("storm", ("back_ms", "p95"), "1,000 clients disconnected at once: reconnected, p95", "ms", 15_000),
    Promise("storm", ("clients_missing_events",), "… clients that missed an event", "", 0, exact=True),
    Promise("storm", ("storm", "token_lag_ms", "p95"), "… lag of another client during that, p95", "ms"),
    Promise("storm", ("storm", "events_lost"), "… events that it lost", "", 0, exact=True),
    Promise("storm", ("storm", "seq_gaps"), "… gaps in its sequence numbers", "", 0, exact=True),
    Promise("http", (STREAMED, "req_to_llm_ms", "p50"), "/v1, streamed: request → model call", "ms", 20, openclaw=453),
    Promise("http", (PLAIN, "req_to_llm_ms", "p50"), "/v1, plain: request → model call", "ms", 20, openclaw=453),
    Promise("http", (TEN_STREAMED, "req_per_s"), "/v1, streamed, 10 concurrent", "1/s", 60, at_least=True, openclaw=1.84),
    Promise("http", (TEN_PLAIN, "req_per_s"), "/v1, plain, 10 concurrent", "1/s", 60, at_least=True, openclaw=1.61),
    Promise("http", (TEN_STREAMED, "errors"), "… that failed, streamed", "", 0, exact=True),
    Promise("http", (TEN_PLAIN, "errors"), "… that failed, plain", "", 0, exact=True),
    Promise("methods", ("sessions.list_10000", "limit_50", "p50"), "sessions.list, 50 of 10,000", "ms", 10, openclaw=9.1),
    Promise("methods", ("sessions.list_10000", "search_limit_50", "p50"), "… with a search", "ms", 30, openclaw=93),
    Promise("methods", ("chat.history_limit_1000", "p50"), "chat.history of 1,000 messages", "ms", 60, openclaw=78),
    Promise("methods", ("chat.inject_x1000_per_s",), "chat.inject, sequential", "1/s", at_least=True, openclaw=120),
)
