"""The exec gate: what a command line would do, and whether it is allowed. Any doubtful line needs approval; nothing here runs it.

`analyze` parses the line and inspects files, regardless of the rules; `judge` is pure and compares the analysis with the rules;
`make_grant_entries` returns what "always allow" would store. The gate reduces the number of approvals; the sandbox is the
security boundary. The analyzed line is exactly what must run: `bash --norc --noprofile -c` with the same bytes.
"""

import asyncio
import hashlib
from collections import OrderedDict

import orjson

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.allowlist import find_misses
from tools_app.exec.gate.examine import examine
from tools_app.exec.gate.shell.line import find_rejections, find_spelling_doubts
from tools_app.exec.gate.shell.second_parser import SecondParserResult, run_second_parser
from tools_app.exec.gate.shell.shfmt import Node, ParseFailed, ParserUnavailable, parse_line
from tools_app.exec.gate.types import (
    AllowEntry,
    Analysis,
    Ask,
    Effect,
    ExecContext,
    Executable,
    GateRules,
    GateVerdict,
    Program,
    Script,
    Security,
)

__all__ = [
    "AllowEntry",
    "Analysis",
    "Ask",
    "Effect",
    "ExecContext",
    "Executable",
    "GateRules",
    "GateVerdict",
    "Program",
    "Script",
    "Security",
    "analyze",
    "hash_analysis",
    "judge",
    "make_grant_entries",
]

register_reasons(
    {
        "gate.unparsable": gettext_noop("The command line can't be parsed: {error}"),
        "gate.unread.parser": gettext_noop("The command line could not be parsed: {problem}."),
        "gate.unread.depth": gettext_noop("The command line is nested too deeply."),
        "gate.unread.error": gettext_noop("The command line could not be analyzed ({error})."),
        "gate.security-deny": gettext_noop("Running commands is disabled here."),
        "gate.ask-always": gettext_noop("Every command here needs approval."),
        "gate.never-always": gettext_noop("{why}, so always allowing it would allow anything."),
        "gate.open-arguments": gettext_noop("{program} has arguments that are only known at run time."),
        "gate.nothing-to-allow": gettext_noop("The command line doesn't start a program."),
    }
)

ParsedLine = tuple[Node, SecondParserResult]

HASH_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_SORT_KEYS
MAX_CACHED_LINES = 256
MAX_CACHED_LINE_BYTES = 4096  # the tree is about a hundred times larger than its line
_cache: OrderedDict[bytes, ParsedLine] = OrderedDict()  # by SHA-256 of the line; files are inspected every time


async def analyze(line: str, context: ExecContext) -> Analysis:
    """Analyze a line. Never raises: failures become doubts."""
    if refused := find_rejections(line):
        return Analysis(line, refused=refused)
    try:
        tree, second = await _parse_cached(line)
        return await asyncio.to_thread(examine, line, context, tree, second, find_spelling_doubts(line))
    except ParseFailed as error:
        return Analysis(line, refused=(Reason("gate.unparsable", error=str(error)),))
    except ParserUnavailable as error:
        return _unparsed_analysis(line, Reason("gate.unread.parser", problem=error.problem))
    except RecursionError:
        return _unparsed_analysis(line, Reason("gate.unread.depth"))
    except Exception as error:  # whatever the cause, the line needs approval
        return _unparsed_analysis(line, Reason("gate.unread.error", error=type(error).__name__))


def _unparsed_analysis(line: str, doubt: Reason) -> Analysis:
    return Analysis(line, doubts=(doubt,), unparsed=True)


async def _parse_cached(line: str) -> ParsedLine:
    key = hashlib.sha256(line.encode()).digest()
    if cached := _cache.get(key):
        _cache.move_to_end(key)
        return cached
    parsed = (await parse_line(line), run_second_parser(line))
    if len(line) <= MAX_CACHED_LINE_BYTES:
        _cache[key] = parsed
        while len(_cache) > MAX_CACHED_LINES:
            _cache.popitem(last=False)
    return parsed


def judge(analysis: Analysis, rules: GateRules) -> GateVerdict:
    """Compare an analysis with the rules. Refused lines are always denied; doubts need approval, or are denied if asking is off."""
    if analysis.refused:
        return GateVerdict("deny", analysis.refused, analysis)
    if rules.security == "deny":
        return GateVerdict("deny", (Reason("gate.security-deny"),), analysis)
    if rules.security == "full":
        # Only lines that could not be parsed need approval, because the blocklist was not applied to them.
        reasons = analysis.doubts if analysis.unparsed else ()
    else:
        misses = [reason for program in analysis.programs for reason in find_misses(program, rules.allow)]
        reasons = tuple(dict.fromkeys([*analysis.doubts, *misses]))
    if rules.ask == "always":
        return GateVerdict("ask", (*reasons, Reason("gate.ask-always")), analysis)
    if not reasons:
        return GateVerdict("allow", (), analysis)
    return GateVerdict("deny" if rules.ask == "off" else "ask", reasons, analysis)


def hash_analysis(analysis: Analysis) -> str:
    """Hash the findings about a line. The hash changes if files that the findings depend on change."""
    findings = [analysis.refused, analysis.doubts, [(each.name, each.standing, each.doubts) for each in analysis.programs]]
    return hashlib.sha256(orjson.dumps(findings, default=Reason.to_json, option=HASH_OPTIONS)).hexdigest()


def make_grant_entries(analysis: Analysis) -> tuple[AllowEntry, ...] | Reason:
    """What "always allow" would store for this line, or why it is not offered."""
    if analysis.refused or analysis.doubts:
        return (analysis.refused + analysis.doubts)[0]
    entries: list[AllowEntry] = []
    for program in analysis.programs:
        executable = program.executable
        if program.never_always:
            return Reason("gate.never-always", why=program.never_always)
        if executable is None:
            return Reason("gate.not-found", program=program.name)
        if executable.distrust:
            return Reason("gate.not-trusted", program=program.name, distrust=executable.distrust)
        if program.standing:
            return program.standing[0]
        if program.shape is None:
            return Reason("gate.open-arguments", program=program.name)
        entries.append(AllowEntry(executable.realpath, program.shape))
    return tuple(dict.fromkeys(entries)) or Reason("gate.nothing-to-allow")
