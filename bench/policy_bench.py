"""Measure the tool policy: 60 tools, nine layers that all have rules, 500 rows; and a plain implementation in the same run.

    python -m bench.policy_bench [--rounds 2000] [--out FILE]

evaluate    everything for a run: every layer and every tool, with the trace that explains the result
authorize   one tool call, as it is checked and recorded: query and verdict as JSON
tool set    what this adds to the start of a run: read rules and tools from SQLite, create, check and describe the tools
…, cold     the same in the first run after a policy change, with empty caches

The plain version (tests/harness/reference_policy.py) loops over rows and entries with fnmatch and explains nothing; for the tool
set it reads the rows through the ORM. Rounds are interleaved. The exit code is 1 if a target is missed. On a busy machine,
raise the priority (`chrt -r 1 python -m bench.policy_bench`): p99 is easily disturbed by other processes.
"""

import argparse
import asyncio
import gc
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.gateway.figures import Result, percentile
from bench.gateway.options import Options
from bench.installation import CLEARED, prepare
from bench.report import align_columns

TOOLS, ROWS = 60, 500
AGENT, SERVER = "main", "acme"
LIMITS = {"evaluate": 2.0, "tool set": 3.0}  # ms, p99
PLAIN = {"evaluate": "evaluate, plain", "tool set": "tool set, plain"}
COLD = "tool set, cold"


def rows() -> list[Any]:
    """Return one matching row for each layer, with lists of a realistic length, and many similar rows that don't match.

    Most rows that don't match name the same agent, the same channel or everyone, but other models, groups or people.
    """
    from tools_app.policy.rules import RuleRow

    def padded(*entries: str) -> tuple[str, ...]:
        return (*entries, *(f"old_{number}_*" for number in range(3)), *(f"{SERVER}__gone_{number}" for number in range(20)))

    matching = [
        RuleRow("global", profile="full", deny=padded("gateway")),
        RuleRow("global", provider="openai", profile="full", allow=padded("*"), deny=("browser",)),
        RuleRow("agent", AGENT, profile="coding", also_allow=padded("group:web", SERVER), allow=padded("group:openclaw", SERVER)),
        RuleRow("agent", AGENT, provider="openai/gpt-5", allow=padded("*"), deny=("cron",)),
        RuleRow("group", channel="telegram", group="-1", sender="anna", allow=padded("group:fs", "sessions_*", SERVER)),
        RuleRow("sandbox", AGENT, allow=padded("group:fs", "group:runtime", f"{SERVER}__*")),
        RuleRow("subagent", deny=padded("web_fetch")),
    ]
    similar: list[RuleRow] = []
    for number in range(100):
        similar += [
            RuleRow("agent", AGENT, provider=f"openai/gpt-{number + 10}", deny=padded("exec")),
            RuleRow("global", provider=f"provider-{number}", profile="coding", deny=padded("browser")),
            RuleRow("group", channel="telegram", group="-1", sender=f"person-{number}", allow=padded("group:fs")),
            RuleRow("group", channel="telegram", group=f"-{number + 2}", deny=padded("group:runtime")),
        ]
    left = ROWS - len(matching) - len(similar)
    return [*matching, *similar, *(RuleRow("agent", f"agent-{number}", profile="coding", deny=("exec",)) for number in range(left))]


class PolicySetup:
    """A migrated SQLite database with these rows, and an MCP server so that there are 60 tools. Django must be set up."""

    def __init__(self, workspace: Path) -> None:
        from clawsite.infra import clock
        from sessions_app.origin import Sender
        from tools_app.core.definition import CallRef, ToolEnv
        from tools_app.models import McpServer, PolicyVersion, ToolPolicy
        from tools_app.policy.query import PolicyQuery
        from tools_app.policy.rules import PolicyRules
        from tools_app.policy_store.policies import current_rules
        from tools_app.sources.registry import load_installed
        from tools_app.sources.tools import load_tools
        from tools_app.toolset import build_toolset

        rules = PolicyRules(2, tuple(rows()))
        ToolPolicy.objects.all().delete()
        ToolPolicy.objects.bulk_create([ToolPolicy(**row.to_json()) for row in rules.rows])
        PolicyVersion.objects.create(number=2, created_at=clock.now(), snapshot=rules.snapshot())
        self.env = ToolEnv(workspace, AGENT, 1, "s", f"agent:{AGENT}:telegram:group:-1")
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        tools = [
            {"name": f"do_{number}", "title": "", "description": "Do something.", "inputSchema": schema}
            for number in range(TOOLS - len(load_installed().tools))
        ]
        McpServer.objects.create(name=SERVER, enabled=True, tools=tools, listing="1")
        self.run_query = PolicyQuery(
            AGENT, True, True, (), "openai", "gpt-5", "telegram", "-1", Sender(username="@Anna"), sandboxed=True
        )
        self.rules = current_rules()
        self.toolset = build_toolset(self.env, self.run_query, self.rules, load_tools())
        self.query = self.toolset.query
        self.call = CallRef("c1", next(iter(self.toolset.tools)), {"path": "README.md"})
        assert len(self.query.tools) == TOOLS
        assert len(self.rules.rows) == ROWS
        self._check()

    def _check(self) -> None:
        """Check that both implementations agree and that every layer has a rule."""
        from tests.harness import reference_policy

        verdict = self.toolset.verdict
        assert set(verdict.kept) == reference_policy.kept(self.query, self.rules)
        without_rule = {step.layer for step in next(iter(verdict.trace.values()))[1:] if step.rule.code == "policy.no_rule"}
        assert not without_rule, without_rule

    def change_policy(self) -> None:
        """Create another policy version and clear the caches."""
        from clawsite.infra import clock
        from tools_app.models import PolicyVersion
        from tools_app.policy import matcher
        from tools_app.policy_store.policies import current_rules

        rules = current_rules()
        PolicyVersion.objects.create(number=rules.version + 1, created_at=clock.now(), snapshot=rules.snapshot())
        matcher.compile_entries.cache_clear()
        matcher.has_only_plugins.cache_clear()

    def jobs(self) -> dict[str, Callable[[], Any]]:
        from tests.harness import reference_policy
        from tools_app.authorize import authorize_tool_call
        from tools_app.models import ToolPolicy
        from tools_app.policy.evaluation import evaluate
        from tools_app.policy.rules import PolicyRules
        from tools_app.policy_store.policies import current_rules
        from tools_app.sources.tools import load_tools
        from tools_app.toolset import build_toolset

        def tool_set() -> Any:
            return build_toolset(self.env, self.run_query, current_rules(), load_tools()).specs()

        def plain_tool_set() -> Any:
            rules = PolicyRules(2, tuple(policy.as_rule() for policy in ToolPolicy.objects.all()))
            tools, _unavailable = load_tools().create(reference_policy.kept(self.query, rules), self.env)
            return [tool.spec() for tool in tools.values()]

        return {
            "evaluate": lambda: evaluate(self.query, self.rules).kept,
            PLAIN["evaluate"]: lambda: reference_policy.kept(self.query, self.rules),
            "authorize": lambda: authorize_tool_call(self.call, toolset=self.toolset, rules=self.rules),
            "tool set": tool_set,
            COLD: tool_set,
            PLAIN["tool set"]: plain_tool_set,
        }


def measure(rounds: int) -> Result:
    """Return p50, p95 and p99 in ms for each job."""
    home = Path(tempfile.mkdtemp(prefix="clawsite-policy-"))
    try:
        for name in [name for name in os.environ if name.startswith(CLEARED)]:
            del os.environ[name]
        os.environ |= {"CLAWSITE_HOME": str(home), "DJANGO_SETTINGS_MODULE": "clawsite.settings"}
        prepare(os.environ)
        import django

        django.setup()
        setup = PolicySetup(home)
        jobs = setup.jobs()
        seconds: dict[str, list[float]] = {name: [] for name in jobs}
        gc.collect()
        gc.freeze()  # exclude loaded modules from collections, which still count for objects of the jobs
        for number in range(rounds + 20):
            for name, job in jobs.items():
                if name in (COLD, *PLAIN.values()) and number % 20:
                    continue  # slow, and policy changes are rare
                if name == COLD:
                    setup.change_policy()
                started = time.perf_counter()
                job()
                if number >= 20:
                    seconds[name].append(time.perf_counter() - started)
        return {name: _figures(times) for name, times in seconds.items()} | {"load_average": round(os.getloadavg()[0], 2)}
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _figures(times: list[float]) -> Result:
    values = {name: percentile(times, share) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))}
    return {"n": len(times)} | {name: round((value or 0) * 1000, 3) for name, value in values.items()}


def table(result: Result) -> str:
    lines = [("measurement, ms", "p50", "p95", "p99", "target (p99)", "plain, p50", "ratio")]
    for name in ("evaluate", "authorize", "tool set", COLD):
        figures, limit = result[name], LIMITS.get(name)
        verdict = "" if limit is None else f"≤ {limit:g}: {'pass' if figures['p99'] <= limit else 'FAIL'}"
        plain = result[PLAIN[name]]["p50"] if name in PLAIN else None
        comparison = ("", "") if plain is None else (f"{plain:g}", f"{plain / figures['p50']:.1f}×")
        lines.append((name, f"{figures['p50']:g}", f"{figures['p95']:g}", f"{figures['p99']:g}", verdict, *comparison))
    return (
        align_columns(lines)
        + f"\n{TOOLS} tools, 9 layers, {ROWS} rows; load average {result['load_average']}, {os.cpu_count()} cores"
    )


async def suite(_opt: Options) -> Result:
    """Run this benchmark in a separate process, for bench.run."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.policy_bench", "--out", out.name, stdout=asyncio.subprocess.DEVNULL
        )
        if await process.wait() not in (0, 1):
            raise RuntimeError("bench.policy_bench exited early; see its message above")
        result: Result = json.load(out)
        return result


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench.policy_bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    options = parser.parse_args()
    result = measure(options.rounds)
    print(table(result))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1))
    return int(any(result[name]["p99"] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
