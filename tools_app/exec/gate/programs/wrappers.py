"""Programs that start the program named in their arguments: unwrapped only if every argument is understood.

The started program is then checked like any other, with its own argument rules.
"""

import re
from dataclasses import replace

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.programs.invocation import ProgramCall, why_write_doubtful
from tools_app.exec.gate.shell.variables import HARMLESS_NAME, HARMLESS_VALUE
from tools_app.exec.gate.shell.words import Word
from tools_app.exec.gate.types import split_names

register_reasons(
    {
        "wrapper.time": gettext_noop("the duration is not a plain number"),
        "wrapper.path": gettext_noop("it unsets PATH, so other programs could be found"),
        "wrapper.variable": gettext_noop("it sets {name}, which can change what a program runs"),
        "wrapper.some_variable": gettext_noop("it sets a variable, which can change what a program runs"),
        "wrapper.placeholder": gettext_noop("its replacement string is only known at run time"),
        "find.position": gettext_noop("{word}, which could expand to an action,"),
        "find.value": gettext_noop("the value of {name} is only known at run time"),
        "find.action": gettext_noop("{action} is not known to be a harmless test or action"),
        "find.exec_end": gettext_noop("-exec is not terminated by ; or +"),
        "word.input": gettext_noop("a name from standard input"),
        "word.found": gettext_noop("a path that find returns"),
    }
)

FOUND_PATH = Reason("word.found")
# Options of each wrapper, and the number of operands before the program.
SIMPLE_WRAPPERS: dict[str, tuple[str, int]] = {
    "nice": ("-n: --adjustment=", 0),
    "nohup": ("", 0),
    "timeout": ("-k: -s: -v --kill-after= --signal= --foreground --preserve-status --verbose", 1),
    "stdbuf": ("-i: -o: -e: --input= --output= --error=", 0),
    "setsid": ("-w -f -c --wait --fork --ctty", 0),
    "ionice": ("-c: -n: -t --class= --classdata= --ignore", 0),
    "flock": ("-n -x -s -e -w: --nonblock --exclusive --shared --wait= --timeout=", 1),
    "chronic": ("", 0),
    "caffeinate": ("-d -i -m -s -u -t:", 0),
}
XARGS = """-0 -r -t -x -n: -P: -L: -I: -d: -E: -s: --null --no-run-if-empty --verbose --exit --max-args= --max-procs=
    --max-lines= --delimiter="""
ENV = "-u: -0 --unset= --null"  # no -i: without PATH, programs other than the ones checked could be found
FIND_ALONE = split_names("""
    -H -L -P -print -print0 -prune -depth -d -daystart -mount -xdev -empty -nouser -nogroup -readable -writable
    -executable -not -a -and -o -or -true -false -quit -ls -noleaf -follow -nowarn -warn ( ) ! ,""")
FIND_VALUED = split_names("""
    -name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -type -xtype -size -mtime
    -atime -ctime
    -mmin -amin -cmin -newer -anewer -cnewer -newermt -newerct -newerat -user -group -uid -gid -perm -maxdepth -mindepth
    -links -inum -samefile -regextype -printf -fstype -used -context""")


def unwrap_simple(call: ProgramCall) -> None:
    known, before = SIMPLE_WRAPPERS[call.name]
    found = call.read(known, stop_at_operand=True)
    rest = call.arguments[found.after :]
    if found.unknown:
        return
    if any(word.text is None for word in rest[:before]) or len(rest) < before:
        call.doubt(Reason("program.unknown_program"))
        return
    if call.name == "timeout" and not re.fullmatch(r"[0-9.]+[smhd]?", rest[0].text or ""):
        call.doubt(Reason("wrapper.time"))
    if call.name == "flock":
        call.write(rest[0], content=False)
    call.start(rest[before:])


def unwrap_env(call: ProgramCall) -> None:
    found = call.read(ENV, stop_at_operand=True)
    rest = list(call.arguments[found.after :])
    if found.unknown:
        return
    if any(word.text in (None, "PATH") for name in ("-u", "--unset") for word in found.given.get(name, [])):
        call.doubt(Reason("wrapper.path"))
    while rest and "=" in (rest[0].text or rest[0].lead):
        name, _, value = (rest.pop(0).text or "").partition("=")
        if not (HARMLESS_NAME.fullmatch(name) and HARMLESS_VALUE.fullmatch(value)):
            call.doubt(Reason("wrapper.variable", name=name) if name else Reason("wrapper.some_variable"))
    if rest:
        call.start(rest)


def unwrap_xargs(call: ProgramCall) -> None:
    found = call.read(XARGS, stop_at_operand=True)
    rest = list(call.arguments[found.after :])
    if found.unknown or not rest:
        return  # without a command, xargs only prints its input
    mark = found.value("-I")
    if mark is not None and not mark.text:
        call.doubt(Reason("wrapper.placeholder"))
        return
    unknown = Reason("word.input")
    if mark is None or mark.text is None:
        call.start([*rest, Word(single=False, dashless=False, local=False, dynamic=unknown)])
        return
    call.start([_replace_placeholder(word, mark.text, unknown) for word in rest])


def unwrap_find(call: ProgramCall) -> None:
    words = list(call.arguments)
    starts: list[Word] = []
    while words and (words[0].text is None or not words[0].text.startswith(("-", "(", ")", "!", ","))):
        if not words[0].dashless:
            call.doubt(Reason("find.position", word=words[0].shown))
        call.listed = call.listed or words[0].listed
        starts.append(words.pop(0))
    while words:
        word = words.pop(0)
        if word.text in FIND_ALONE or re.fullmatch(r"-O[0-3]", word.text or ""):
            if word.text in ("-H", "-L", "-P") and not starts:
                while words and (words[0].text is None or not words[0].text.startswith(("-", "(", "!"))):
                    starts.append(words.pop(0))
        elif word.text in FIND_VALUED:
            if not words or not (words[0].single or words[0].dashless):
                call.doubt(Reason("find.value", name=word.text))
            call.listed = call.listed or any(each.listed for each in words[:1])
            words[:1] = []
        elif word.text == "-exec":
            words = _parse_find_action(call, words, starts, follows=any(each.text in ("-L", "-follow") for each in call.arguments))
        else:
            call.doubt(Reason("find.action", action=word.shown))
            return
    call.reads_only = not call.starts


def _parse_find_action(call: ProgramCall, words: list[Word], starts: list[Word], *, follows: bool) -> list[Word]:
    ends = [index for index, word in enumerate(words) if word.text == ";" or (word.text == "+" and words[index - 1].text == "{}")]
    if not ends:
        call.doubt(Reason("find.exec_end"))
        return []
    inside = not follows and all(
        not why_write_doubtful(start, call.cwds, call.context) for start in starts or [Word(text=".", lead=".")]
    )
    dashless = all(start.dashless for start in starts)
    found = Word(text=None, single=False, dashless=dashless, local=inside, dynamic=FOUND_PATH)
    call.start([found if word.text == "{}" else _replace_placeholder(word, "{}", FOUND_PATH) for word in words[: ends[0]]])
    return words[ends[0] + 1 :]


def _replace_placeholder(word: Word, mark: str, what: Reason) -> Word:
    text = word.text if word.text is not None else None
    if text is None or mark not in text:
        return word
    lead = text.partition(mark)[0]
    return replace(word, text=None, lead=lead, dashless=bool(lead) and not lead.startswith("-"), local=False, dynamic=what)
