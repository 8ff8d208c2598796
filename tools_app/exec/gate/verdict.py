"""The exec gate: what a command line would do, and whether it may. Any doubt asks; nothing here starts the line.

`analyse` takes the line apart (parsers, files), whatever the rules are; `judge` is pure and compares with the rules;
`narrow_entry` says what "allow always" would store. The gate saves people questions; the sandbox is the boundary.
What was analysed is what must run: `bash --norc --noprofile -c` with the same bytes.
"""

import asyncio
import hashlib
from collections import OrderedDict

import orjson

from tools_app.exec.gate.allowlist import find_misses
from tools_app.exec.gate.examine import examine
from tools_app.exec.gate.shell.line import find_rejections, find_spelling_doubts
from tools_app.exec.gate.shell.parser import Node, ParseFailed, ParserUnavailable, parse_line
from tools_app.exec.gate.shell.second_parser import SecondParserResult, run_second_parser
from tools_app.exec.gate.types import (
    AllowEntry,
    Analysis,
    Ask,
    Effect,
    ExecContext,
    Executable,
    GateReason,
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
    "GateReason",
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

ParsedLine = tuple[Node, SecondParserResult]

MAX_CACHED_LINES = 256
MAX_CACHED_LINE_BYTES = 4096  # the tree is a hundred times as large as its line
_cache: OrderedDict[bytes, ParsedLine] = OrderedDict()  # by SHA-256 of the line; files are looked at anew each time


async def analyze(line: str, place: ExecContext) -> Analysis:
    """Take a line apart. Never raises: what goes wrong is a doubt."""
    if refused := find_rejections(line):
        return Analysis(line, refused=refused)
    try:
        tree, opinion = await _parse_cached(line)
        return await asyncio.to_thread(examine, line, place, tree, opinion, find_spelling_doubts(line))
    except ParseFailed as error:
        return Analysis(line, refused=(GateReason("unparsable", f"This is not a command line that can be read: {error}"),))
    except ParserUnavailable as error:
        return _unparsed_analysis(line, f"The line could not be read: {error}.")
    except RecursionError:
        return _unparsed_analysis(line, "The line is nested too deeply.")
    except Exception as error:  # whatever it was, somebody has to look
        return _unparsed_analysis(line, f"The line could not be analysed ({type(error).__name__}).")


def _unparsed_analysis(line: str, words: str) -> Analysis:
    return Analysis(line, doubts=(GateReason("unread", words),), unread=True)


async def _parse_cached(line: str) -> ParsedLine:
    key = hashlib.sha256(line.encode()).digest()
    if found := _cache.get(key):
        _cache.move_to_end(key)
        return found
    parsed = (await parse_line(line), run_second_parser(line))
    if len(line) <= MAX_CACHED_LINE_BYTES:
        _cache[key] = parsed
        while len(_cache) > MAX_CACHED_LINES:
            _cache.popitem(last=False)
    return parsed


def judge(analysis: Analysis, rules: GateRules) -> GateVerdict:
    """Compare with the rules. What is refused stays refused; what is in doubt is asked, or denied where nobody may be asked."""
    if analysis.refused:
        return GateVerdict("deny", analysis.refused, analysis)
    if rules.security == "deny":
        return GateVerdict("deny", (GateReason("security-deny", "Running commands is switched off here."),), analysis)
    if rules.security == "full":
        # Only what could not be read is in question: nobody knows whether the blocklist speaks of it.
        reasons = analysis.doubts if analysis.unread else ()
    else:
        missed = [reason for program in analysis.programs for reason in find_misses(program, rules.allow)]
        reasons = tuple(dict.fromkeys([*analysis.doubts, *missed]))
    if rules.ask == "always":
        return GateVerdict("ask", (*reasons, GateReason("ask-always", "Every command is asked about here.")), analysis)
    if not reasons:
        return GateVerdict("allow", (), analysis)
    return GateVerdict("deny" if rules.ask == "off" else "ask", reasons, analysis)


def hash_analysis(analysis: Analysis) -> str:
    """Of what was found about a line. The same line has another one when files have changed that the findings come from."""
    found = [analysis.refused, analysis.doubts, [(each.name, each.standing, each.doubts) for each in analysis.programs]]
    return hashlib.sha256(orjson.dumps(found)).hexdigest()


def make_grant_entries(analysis: Analysis) -> tuple[AllowEntry, ...] | GateReason:
    """What "allow always" would store for this line, or why it is not offered."""
    if analysis.refused or analysis.doubts:
        return (analysis.refused + analysis.doubts)[0]
    entries: list[AllowEntry] = []
    for program in analysis.programs:
        found = program.executable
        if program.never_always:
            return GateReason("never-always", f"{program.never_always}: allowing it always would allow anything.")
        if found is None:
            return GateReason("not-found", f"{program.name} was not found.")
        if found.distrust:
            return GateReason("not-trusted", f"{program.name}: {found.distrust}.")
        if program.standing:
            return program.standing[0]
        if program.shape is None:
            return GateReason("open-arguments", f"{program.name} has arguments that are known only when the line runs.")
        entries.append(AllowEntry(found.realpath, program.shape))
    return tuple(dict.fromkeys(entries)) or GateReason("nothing-to-allow", "The line starts no program.")
