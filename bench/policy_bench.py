"""The tool policy: 60 tools, nine layers that all have a say, 500 rows. Beside it the same written plainly, in the same run.

    python -m bench.policy_bench [--rounds 2000] [--out FILE]

evaluate    the whole question of a run: every layer asked about every tool, with the trace that explains it
authorize   one call at the door, as it is judged and written down: question and answer as JSON
tool set    what it adds to the start of a run: read rules and tools from SQLite, make the tools, judge them, describe them
…, cold     the same in the first run after a change of the policy: nothing about the rules is remembered
The plain version (tests/naive_policy.py) loops over rows and entries with fnmatch and explains nothing; for the tool set it reads
the rows through the ORM. Rounds of all of them are interleaved. Exit code 1: a promise was not kept.
On a busy machine put it before the others (`chrt -r 1 python -m bench.policy_bench`): 1 % of the rounds is less than what one
other process takes at a time.
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
PLAIN = {"evaluate": "evaluate, plainly", "tool set": "tool set, plainly"}
COLD = "tool set, cold"


def rows() -> list[Any]:
    """One for each layer, with the lists of an installation that has lived for a while, and many near them.

    Most of these are about the agent that is asked, its channel or everybody: other models, groups and people.
    """
    from tools_app.policy.rules import RuleRow

    def grown(*entries: str) -> tuple[str, ...]:
        return (*entries, *(f"old_{number}_*" for number in range(3)), *(f"{SERVER}__gone_{number}" for number in range(20)))

    asked = [
        RuleRow("global", profile="full", deny=grown("gateway")),
        RuleRow("global", provider="openai", profile="full", allow=grown("*"), deny=("browser",)),
        RuleRow("agent", AGENT, profile="coding", also_allow=grown("group:web", SERVER), allow=grown("group:openclaw", SERVER)),
        RuleRow("agent", AGENT, provider="openai/gpt-5", allow=grown("*"), deny=("cron",)),
        RuleRow("group", channel="telegram", group="-1", sender="anna", allow=grown("group:fs", "sessions_*", SERVER)),
        RuleRow("sandbox", AGENT, allow=grown("group:fs", "group:runtime", f"{SERVER}__*")),
        RuleRow("subagent", deny=grown("web_fetch")),
    ]
    near: list[RuleRow] = []
    for number in range(100):
        near += [
            RuleRow("agent", AGENT, provider=f"openai/gpt-{number + 10}", deny=grown("exec")),
            RuleRow("global", provider=f"provider-{number}", profile="coding", deny=grown("browser")),
            RuleRow("group", channel="telegram", group="-1", sender=f"person-{number}", allow=grown("group:fs")),
            RuleRow("group", channel="telegram", group=f"-{number + 2}", deny=grown("group:runtime")),
        ]
    left = ROWS - len(asked) - len(near)
    return [*asked, *near, *(RuleRow("agent", f"agent-{number}", profile="coding", deny=("exec",)) for number in range(left))]


class Scene:
    """A migrated SQLite database with these rows and an MCP server whose tools make it 60. Django must be set up."""

    def __init__(self, workspace: Path) -> None:
        from clawsite.infra import clock
        from tools_app.core.definition import CallRef, ToolEnv
        from tools_app.models import McpServer, PolicyVersion, ToolPolicy
        from tools_app.policy.query import PolicyQuery, Sender
        from tools_app.policy.rules import PolicyRules
        from tools_app.policy_store.policies import current_rules
        from tools_app.sources.registry import load_installed
        from tools_app.sources.tools import load_tools
        from tools_app.toolset import build_toolset

        written = PolicyRules(2, tuple(rows()))
        ToolPolicy.objects.all().delete()
        ToolPolicy.objects.bulk_create([ToolPolicy(**row.to_json()) for row in written.rows])
        PolicyVersion.objects.create(number=2, created_at=clock.now(), snapshot=written.snapshot())
        self.env = ToolEnv(workspace, AGENT, 1, "s", f"agent:{AGENT}:telegram:group:-1")
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        told = [
            {"name": f"do_{number}", "title": "", "description": "Do something.", "inputSchema": schema}
            for number in range(TOOLS - len(load_installed().tools))
        ]
        McpServer.objects.create(name=SERVER, enabled=True, tools=told, listing="1")
        self.asked = PolicyQuery(
            AGENT, True, True, (), "openai", "gpt-5", "telegram", "-1", Sender(username="@Anna"), sandboxed=True
        )
        self.rules = current_rules()
        self.toolset = build_toolset(self.env, self.asked, self.rules, load_tools())
        self.query = self.toolset.query
        self.call = CallRef("c1", next(iter(self.toolset.tools)), {"path": "README.md"})
        assert len(self.query.tools) == TOOLS
        assert len(self.rules.rows) == ROWS
        self._check()

    def _check(self) -> None:
        """Both say the same, and every layer has something to say, or the comparison would be worth nothing."""
        from tests import naive_policy

        verdict = self.toolset.verdict
        assert set(verdict.kept) == naive_policy.kept(self.query, self.rules)
        silent = {step.layer for step in next(iter(verdict.trace.values()))[1:] if step.rule == "no rule"}
        assert not silent, silent

    def change(self) -> None:
        """Another version of the policy, and nothing remembered of its lists."""
        from clawsite.infra import clock
        from tools_app.models import PolicyVersion
        from tools_app.policy import matcher
        from tools_app.policy_store.policies import current_rules

        rules = current_rules()
        PolicyVersion.objects.create(number=rules.version + 1, created_at=clock.now(), snapshot=rules.snapshot())
        matcher.compile_entries.cache_clear()
        matcher.has_only_plugins.cache_clear()

    def jobs(self) -> dict[str, Callable[[], Any]]:
        from tests import naive_policy
        from tools_app.authorize import authorize_tool_call
        from tools_app.models import ToolPolicy
        from tools_app.policy.chain import evaluate
        from tools_app.policy.rules import PolicyRules
        from tools_app.policy_store.policies import current_rules
        from tools_app.sources.tools import load_tools
        from tools_app.toolset import build_toolset

        def tool_set() -> Any:
            return build_toolset(self.env, self.asked, current_rules(), load_tools()).specs()

        def plain_tool_set() -> Any:
            rules = PolicyRules(2, tuple(policy.as_rule() for policy in ToolPolicy.objects.all()))
            made, _declined = load_tools().create(naive_policy.kept(self.query, rules), self.env)
            return [tool.spec() for tool in made.values()]

        return {
            "evaluate": lambda: evaluate(self.query, self.rules).kept,
            PLAIN["evaluate"]: lambda: naive_policy.kept(self.query, self.rules),
            "authorize": lambda: authorize_tool_call(self.call, toolset=self.toolset, rules=self.rules),
            "tool set": tool_set,
            COLD: tool_set,
            PLAIN["tool set"]: plain_tool_set,
        }


def measure(rounds: int) -> Result:
    """p50, p95 and p99 in ms of each job."""
    home = Path(tempfile.mkdtemp(prefix="clawsite-policy-"))
    try:
        for name in [name for name in os.environ if name.startswith(CLEARED)]:
            del os.environ[name]
        os.environ |= {"CLAWSITE_HOME": str(home), "DJANGO_SETTINGS_MODULE": "clawsite.settings"}
        prepare(os.environ)
        import django

        django.setup()
        scene = Scene(home)
        jobs = scene.jobs()
        seconds: dict[str, list[float]] = {name: [] for name in jobs}
        gc.collect()
        gc.freeze()  # what was loaded is not looked through again; collections of what the jobs make stay in the figures
        for number in range(rounds + 20):
            for name, job in jobs.items():
                if name in (COLD, *PLAIN.values()) and number % 20:
                    continue  # they are slow, and a change is rare
                if name == COLD:
                    scene.change()
                began = time.perf_counter()
                job()
                if number >= 20:
                    seconds[name].append(time.perf_counter() - began)
        return {name: _figures(taken) for name, taken in seconds.items()} | {"load_average": round(os.getloadavg()[0], 2)}
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _figures(taken: list[float]) -> Result:
    found = {name: percentile(taken, share) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))}
    return {"n": len(taken)} | {name: round((value or 0) * 1000, 3) for name, value in found.items()}


def table(result: Result) -> str:
    lines = [("what, ms", "p50", "p95", "p99", "promise (p99)", "plainly, p50", "ratio")]
    for name in ("evaluate", "authorize", "tool set", COLD):
        figures, limit = result[name], LIMITS.get(name)
        verdict = "" if limit is None else f"≤ {limit:g}: {'pass' if figures['p99'] <= limit else 'FAIL'}"
        plain = result[PLAIN[name]]["p50"] if name in PLAIN else None
        beside = ("", "") if plain is None else (f"{plain:g}", f"{plain / figures['p50']:.1f}×")
        lines.append((name, f"{figures['p50']:g}", f"{figures['p95']:g}", f"{figures['p99']:g}", verdict, *beside))
    return (
        align_columns(lines)
        + f"\n{TOOLS} tools, 9 layers, {ROWS} rows; load average {result['load_average']}, {os.cpu_count()} cores"
    )


async def suite(_opt: Options) -> Result:
    """The same in a process of its own, for bench.run."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.policy_bench", "--out", out.name, stdout=asyncio.subprocess.DEVNULL
        )
        if await process.wait() not in (0, 1):
            raise RuntimeError("bench.policy_bench ended early; its message is above")
        found: Result = json.load(out)
        return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench.policy_bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    given = parser.parse_args()
    result = measure(given.rounds)
    print(table(result))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1))
    return int(any(result[name]["p99"] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
