"""The exec gate: what a command line would do, and whether it may. Any doubt asks; nothing here starts the line.

`analyse` takes the line apart (parsers, files), whatever the rules are; `judge` is pure and compares with the rules;
`narrow_entry` says what "allow always" would store. The gate saves people questions; the sandbox is the boundary.
What was analysed is what must run: `bash --norc --noprofile -c` with the same bytes.
"""

import asyncio
import hashlib
from collections import OrderedDict

import orjson

from tools_app.exec.gate.allowlist import miss
from tools_app.exec.gate.examine import examine
from tools_app.exec.gate.shell.line import refusals, spelling_doubts
from tools_app.exec.gate.shell.parser import Node, NoParser, NotParsed, parse
from tools_app.exec.gate.shell.second_parser import Opinion, second_opinion
from tools_app.exec.gate.types import (
    AllowEntry,
    Analysis,
    Ask,
    Effect,
    Executable,
    GateRules,
    Judgement,
    Part,
    Place,
    Program,
    Reason,
    Script,
    Security,
)

__all__ = [
    "AllowEntry",
    "Analysis",
    "Ask",
    "Effect",
    "Executable",
    "GateRules",
    "Judgement",
    "Part",
    "Place",
    "Program",
    "Reason",
    "Script",
    "Security",
    "analyse",
    "fingerprint",
    "judge",
    "narrow_entry",
]

Parsed = tuple[Node, Opinion]

MOST_KEPT = 256
MOST_KEPT_BYTES = 4096  # the tree is a hundred times as large as its line
_parsed: OrderedDict[bytes, Parsed] = OrderedDict()  # by SHA-256 of the line; files are looked at anew each time


async def analyse(line: str, place: Place) -> Analysis:
    """Take a line apart. Never raises: what goes wrong is a doubt."""
    if refused := refusals(line):
        return Analysis(line, refused=refused)
    try:
        tree, opinion = await _parse(line)
        return await asyncio.to_thread(examine, line, place, tree, opinion, spelling_doubts(line))
    except NotParsed as error:
        return Analysis(line, refused=(Reason("unparsable", f"This is not a command line that can be read: {error}"),))
    except NoParser as error:
        return _unread(line, f"The line could not be read: {error}.")
    except RecursionError:
        return _unread(line, "The line is nested too deeply.")
    except Exception as error:  # whatever it was, somebody has to look
        return _unread(line, f"The line could not be analysed ({type(error).__name__}).")


def _unread(line: str, words: str) -> Analysis:
    return Analysis(line, doubts=(Reason("unread", words),), unread=True)


async def _parse(line: str) -> Parsed:
    key = hashlib.sha256(line.encode()).digest()
    if found := _parsed.get(key):
        _parsed.move_to_end(key)
        return found
    parsed = (await parse(line), second_opinion(line))
    if len(line) <= MOST_KEPT_BYTES:
        _parsed[key] = parsed
        while len(_parsed) > MOST_KEPT:
            _parsed.popitem(last=False)
    return parsed


def judge(analysis: Analysis, rules: GateRules) -> Judgement:
    """Compare with the rules. What is refused stays refused; what is in doubt is asked, or denied where nobody may be asked."""
    if analysis.refused:
        return Judgement("deny", analysis.refused, analysis)
    if rules.security == "deny":
        return Judgement("deny", (Reason("security-deny", "Running commands is switched off here."),), analysis)
    if rules.security == "full":
        # Only what could not be read is in question: nobody knows whether the blocklist speaks of it.
        reasons = analysis.doubts if analysis.unread else ()
    else:
        missed = [reason for program in analysis.programs for reason in miss(program, rules.allow)]
        reasons = tuple(dict.fromkeys([*analysis.doubts, *missed]))
    if rules.ask == "always":
        return Judgement("ask", (*reasons, Reason("ask-always", "Every command is asked about here.")), analysis)
    if not reasons:
        return Judgement("allow", (), analysis)
    return Judgement("deny" if rules.ask == "off" else "ask", reasons, analysis)


def fingerprint(analysis: Analysis) -> str:
    """Of what was found about a line. The same line has another one when files have changed that the findings come from."""
    found = [analysis.refused, analysis.doubts, [(each.name, each.standing, each.doubts) for each in analysis.programs]]
    return hashlib.sha256(orjson.dumps(found)).hexdigest()


def narrow_entry(analysis: Analysis) -> tuple[AllowEntry, ...] | Reason:
    """What "allow always" would store for this line, or why it is not offered."""
    if analysis.refused or analysis.doubts:
        return (analysis.refused + analysis.doubts)[0]
    entries: list[AllowEntry] = []
    for program in analysis.programs:
        found = program.executable
        if program.never_always:
            return Reason("never-always", f"{program.never_always}: allowing it always would allow anything.")
        if found is None:
            return Reason("not-found", f"{program.name} was not found.")
        if found.distrust:
            return Reason("not-trusted", f"{program.name}: {found.distrust}.")
        if program.standing:
            return program.standing[0]
        if program.shape is None:
            return Reason("open-arguments", f"{program.name} has arguments that are known only when the line runs.")
        entries.append(AllowEntry(found.realpath, program.shape))
    return tuple(dict.fromkeys(entries)) or Reason("nothing-to-allow", "The line starts no program.")
