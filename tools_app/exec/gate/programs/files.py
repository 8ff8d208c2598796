"""Argument rules of programs that read, change and pack files: options known not to start or write anything unseen."""

import re

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.programs import awk as awk_program
from tools_app.exec.gate.programs import sed as sed_script
from tools_app.exec.gate.programs.invocation import ProgramCall
from tools_app.exec.gate.shell.words import Word
from tools_app.exec.gate.types import split_names

register_reasons(
    {
        "sed.script": gettext_noop("the script may run programs or write files (the commands e and w), or can't be parsed"),
        "sed.backup": gettext_noop("the backup suffix is a path"),
        "awk.program": gettext_noop("the program may start others or write files (system, getline, | or >), or can't be parsed"),
        "tar.old_style": gettext_noop("these old-style options are not known to be safe"),
        "tar.remote": gettext_noop("the archive may be remote, so another program (such as ssh) would be started"),
        "program.operand": gettext_noop("the operand {operand} is not known to be safe"),
        "program.last_operand": gettext_noop("the last operand is only known at run time"),
        "program.second_operand": gettext_noop("there may be a second operand, which it would write to"),
    }
)

SED = """-n --quiet --silent -E -r --regexp-extended -s --separate -u --unbuffered -z --null-data --posix --sandbox --help
    --version -e: --expression= -l: --line-length= -i? --in-place[=]"""
AWK = "-F: -v: --field-separator= --assign= --version -V"
SORT = """-n -r -u -f -b -d -g -h -i -M -V -c -C -m -s -z -R -k: -t: -S: -o:> --key= --field-separator= --output=> --parallel=
    --buffer-size= --numeric-sort --general-numeric-sort --human-numeric-sort --version-sort --month-sort --reverse
    --unique --stable --ignore-case --ignore-leading-blanks --dictionary-order --check --merge --zero-terminated
    --random-sort --help --version"""
TAR = """-c -x -t -r -u -z -j -J -a -v -p -k -h -m -O -f: -C: --file= --directory= --create --extract --get --list --append
    --update --gzip --gunzip --bzip2 --xz --zstd --auto-compress --verbose --exclude= --exclude-vcs --strip-components=
    --wildcards --to-stdout --keep-old-files --no-same-owner --no-same-permissions --dereference --totals --help --version"""
DIFF = """-q -s -c -C: -u -U: -e -n -y -W: -p -F: -r -N -x: -X: -i -E -Z -b -w -B -I: -a -t -T -d -H -L: -# --brief
    --report-identical-files --context[=] --unified[=] --ed --rcs --normal --side-by-side --width= --left-column
    --suppress-common-lines --show-c-function --show-function-line= --label= --expand-tabs --initial-tab --recursive
    --no-dereference --new-file --unidirectional-new-file --ignore-file-name-case --exclude= --exclude-from=
    --starting-file= --from-file= --to-file= --ignore-case --ignore-tab-expansion --ignore-trailing-space
    --ignore-space-change --ignore-all-space --ignore-blank-lines --ignore-matching-lines= --text --strip-trailing-cr
    --minimal --horizon-lines= --speed-large-files --color[=] --palette= --help --version -v"""
NM = """-a -A -B -C -D -g -l -n -o -p -P -r -S -u -U -v -t: -f: --debug-syms --print-file-name --demangle[=] --dynamic
    --extern-only --defined-only --undefined-only --line-numbers --numeric-sort --no-sort --portability --print-size
    --reverse-sort --size-sort --radix= --format= --help --version"""
RIPGREP = """-i -v -w -n -N -l -c -o -q -s -S -F -P -U -u -uu -uuu -a -h -H -I -L -p -x -0 -. -e: -f: -g: -t: -T: -A: -B: -C: -m:
    -r: -M: -j: -E: -d: --ignore-case --invert-match --word-regexp --line-number --no-line-number --files-with-matches
    --files-without-match --count --count-matches --only-matching --quiet --smart-case --fixed-strings --pcre2 --multiline
    --hidden --no-ignore --no-ignore-vcs --files --json --stats --heading --no-heading --with-filename --no-filename
    --color= --colors= --glob= --iglob= --type= --type-not= --type-list --max-count= --max-depth= --max-columns=
    --context= --after-context= --before-context= --regexp= --replace= --sort= --sortr= --column --no-messages --trim
    --vimgrep --null --no-config --version --help --follow --text --pretty --passthru --line-regexp --case-sensitive
    --threads="""
READS_BY_LIST = {"rg": RIPGREP, "diff": DIFF, "nm": NM}
# The known options of each, and which of its operands it writes to.
WRITERS: dict[str, tuple[str, str]] = {
    "rm": ("-r -R -f -v -d -i -I --recursive --force --verbose --dir --one-file-system --preserve-root", "all"),
    "rmdir": ("-p -v --parents --verbose --ignore-fail-on-non-empty", "all"),
    "mkdir": ("-p -v -m: --parents --verbose --mode=", "all"),
    "touch": ("-a -c -m -h -t: -d: -r: --no-create --date= --reference= --time=", "all"),
    "tee": ("-a -i -p --append --ignore-interrupts", "all"),
    "truncate": ("-s: -c -r: --size= --no-create --reference=", "all"),
    "mv": ("-f -n -i -u -v -T -b -t:> --force --no-clobber --update --verbose --target-directory=>", "all"),
    "cp": (
        """-r -R -a -d -p -f -n -i -u -v -L -P -H -l -x -T -t:> --recursive --archive --force --no-clobber --update --verbose
    --parents --preserve[=] --no-preserve= --dereference --no-dereference --reflink[=] --sparse= --target-directory=>""",
        "last",
    ),
    "ln": ("-s -f -n -v -r -T -i --symbolic --force --no-dereference --verbose --relative", "all"),
    "install": ("-d -D -v -p -C -m: --directory --verbose --mode= --preserve-timestamps -t:> --target-directory=>", "last"),
    "chmod": ("-R -v -c -f --recursive --verbose --changes --quiet", "after-first"),
    "chown": ("-R -v -c -f -h --recursive --verbose --changes --no-dereference", "after-first"),
    "chgrp": ("-R -v -c -f -h --recursive --verbose --changes --no-dereference", "after-first"),
    "shred": ("-u -v -z -n: --remove --verbose --zero --iterations=", "all"),
    "split": (
        """-l: -b: -C: -n: -a: -d -x --lines= --bytes= --number= --suffix-length= --numeric-suffixes[=] --verbose""",
        "second",
    ),
    "uniq": (
        """-c -d -D -u -i -z -f: -s: -w: --count --repeated --unique --ignore-case --skip-fields= --skip-chars= --check-chars=""",
        "second",
    ),
    "shuf": ("-e -i: -n: -r -z -o:> --echo --input-range= --head-count= --output=> --repeat --zero-terminated", "none"),
    "iconv": ("-f: -t: -c -l -s -o:> --from-code= --to-code= --list --silent --output=> --verbose", "none"),
    "sponge": ("-a", "all"),
    "xxd": ("-r -p -i -u -b -e -c: -g: -l: -s: -ps", "second"),
    "tree": (
        """-a -d -f -i -L: -P: -I: -s -h -p -u -g -D -C -n -F -r -t -v -x -J -X -o:> --noreport --gitignore --dirsfirst --du
    --prune --filelimit= --version --help""",
        "none",
    ),
    "zip": ("-r -q -v -j -u -d -m -y -9 -8 -7 -6 -5 -4 -3 -2 -1 -0 --recurse-paths --quiet", "first"),
}
NAME_ONLY_WRITERS = split_names("rm rmdir mkdir touch chmod chown chgrp")
PACKERS = split_names("gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4")
PACKER_OPTIONS = """-d -k -f -c -v -l -t -n -q -r -T: -# --decompress --keep --force --stdout --verbose --list --test --quiet --best
    --fast --version"""


def check_sed(call: ProgramCall) -> None:
    found = call.read(SED)
    scripts = [*found.given.get("-e", []), *found.given.get("--expression", [])]
    files = found.operands
    if not scripts and files:
        scripts, files = files[:1], files[1:]
    # Fragments are joined by newlines, and a trailing backslash in one would continue into the next.
    script = "\n".join(each.text or "" for each in scripts)
    uncertain = any(each.text is None or each.text.endswith("\\") for each in scripts)
    if not found.has("--sandbox") and (uncertain or not sed_script.is_harmless(script)):
        call.doubt(Reason("sed.script"))
    if found.has("-i", "--in-place"):
        for suffix in [*found.given.get("-i", []), *found.given.get("--in-place", [])]:
            if not re.fullmatch(r"[A-Za-z0-9_.~-]*", suffix.text or ""):
                call.doubt(Reason("sed.backup"))
        for file in files:
            call.write(file)
    else:
        call.reads_only = True


def check_awk(call: ProgramCall) -> None:
    found = call.read(AWK)
    if found.has("--version", "-V"):
        return
    program = found.operands[0].text if found.operands else None
    if program is None or not awk_program.is_harmless(program):
        call.doubt(Reason("awk.program"))
    call.reads_only = True


def check_sort(call: ProgramCall) -> None:
    call.reads_only = not call.read(SORT).has("-o", "--output")


def check_reader(call: ProgramCall) -> None:
    """Check programs that only read files but can start other programs with some options."""
    call.read(READS_BY_LIST[call.name])
    call.reads_only = True


def check_tar(call: ProgramCall) -> None:
    words = list(call.arguments)
    if words and words[0].text and re.fullmatch(r"[A-Za-z]+", words[0].text):
        # The old style has no dash, and values follow in the order of the letters. With f as the only value, it is equivalent.
        if re.search(r"[^cxtruzjJavpkhmOf]|f.*f", words[0].text):
            call.doubt(Reason("tar.old_style"))
            return
        text = "-" + words[0].text.replace("f", "") + ("f" if "f" in words[0].text else "")
        words[0] = Word(words[0].begin, words[0].end, text, text)
    found = call.read(TAR, words)
    for archive in [*found.given.get("-f", []), *found.given.get("--file", [])]:
        if archive.text is None or ":" in archive.text:
            call.doubt(Reason("tar.remote"))
        elif found.has("-c", "--create", "-r", "--append", "-u", "--update"):
            call.write(archive)
    if found.has("-x", "--extract", "--get") and not found.has("-O", "--to-stdout"):
        for directory in [*found.given.get("-C", []), *found.given.get("--directory", [])] or [_current_directory()]:
            call.write(directory)


def check_unzip(call: ProgramCall) -> None:
    found = call.read("-l -v -t -p -q -o -n -j -u -d:>")
    if not found.has("-l", "-v", "-t", "-p", "-d"):
        call.write(_current_directory())


def check_packer(call: ProgramCall) -> None:
    found = call.read(PACKER_OPTIONS)
    if not found.has("-c", "--stdout", "-l", "--list", "-t", "--test", "--version"):
        for operand in found.operands:
            call.write(operand)


def check_dd(call: ProgramCall) -> None:
    for word in call.arguments:
        name, _, value = (word.text or "").partition("=")
        if name == "of":
            call.write(Word(text=value, lead=value))
        elif name not in ("if", "bs", "count", "skip", "seek", "conv", "status", "ibs", "obs", "iflag", "oflag"):
            call.doubt(Reason("program.operand", operand=word.shown))


def check_writer(call: ProgramCall) -> None:
    known, which = WRITERS[call.name]
    found = call.read(known)
    operands = found.operands
    if found.has("-t", "--target-directory") and which == "last":
        return
    written = {
        "all": operands,
        "last": operands[-1:],
        "first": operands[:1],
        "second": operands[1:2],
        "after-first": operands[1:],
        "none": [],
    }[which]
    for operand in written:
        call.write(operand, content=call.name not in NAME_ONLY_WRITERS)
    if which == "last" and any(not each.single for each in operands[-1:]):
        call.doubt(Reason("program.last_operand"))
    if which == "second" and any(not each.single for each in operands):
        call.doubt(Reason("program.second_operand"))
    call.reads_only = which in ("second", "none") and not call.writes


def _current_directory() -> Word:
    return Word(text=".", lead=".")
