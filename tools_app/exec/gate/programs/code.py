"""Argument rules of interpreters and build tools: files of the workspace may run, code on the command line needs approval.

Allowlisting such a program lets it run files of the workspace. Code inside the line, from standard input, from files outside the
workspace or written by the same line, and packages named in the line need approval.
"""

import re
from collections.abc import Callable

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.programs import python_modules
from tools_app.exec.gate.programs.invocation import ProgramCall
from tools_app.exec.gate.programs.options import parse_arguments, parse_option_spec
from tools_app.exec.gate.shell.words import Word
from tools_app.exec.gate.types import split_names

register_reasons(
    {
        "code.unclear": gettext_noop("it is unclear what it runs"),
        "code.input": gettext_noop("the code comes from standard input, or its file is only known at run time"),
        "code.url": gettext_noop("the code comes from {url} and not from a file"),
        "code.subcommand": gettext_noop("the subcommand {name} is not on the allowlist"),
        "code.no_subcommand": gettext_noop("no subcommand is given"),
        "code.use": gettext_noop("this use of {name} is not on the allowlist"),
        "code.shell": gettext_noop("a shell runs commands that can't be reviewed here"),
        "make.variable": gettext_noop("a variable on the command line can replace the programs that make starts"),
        "make.input": gettext_noop("the makefile comes from standard input"),
        "make.directory": gettext_noop("its working directory is set twice"),
        "npm.command": gettext_noop("only scripts and packages named in the workspace can run without approval"),
        "pip.packages": gettext_noop("it would install or remove packages named on the command line"),
        "pip.requirements": gettext_noop("the requirements file is not in the workspace"),
        "cargo.fix": gettext_noop("it changes source code"),
        "compiler.options_file": gettext_noop("more options come from a file"),
        "program.powerful": gettext_noop("it can start other programs or change the system"),
    }
)

# Options before the script. Those that evaluate code or preload files are omitted.
INTERPRETERS: dict[str, str] = {
    "python": "-u -B -O -OO -I -E -s -S -b -q -V -VV -W: --version --help -h -m:",
    "pypy": "-u -B -O -I -E -s -V --version -m:",
    "node": """-v --version --test --check -c --enable-source-maps --no-warnings --trace-warnings --trace-uncaught -h --help""",
    "ruby": "-w -v --version -c --help",
    "perl": "-w -c -v --version -t -T --help",
    "php": "-v --version -l --help",
    "lua": "-v",
    "luajit": "-v",
    "Rscript": "--version --vanilla",
    "tclsh": "",
    "wish": "",
    "expect": "",
    "guile": "--version",
    "osascript": "",
    "julia": "--version",
    "elixir": "--version",
    "escript": "",
    "groovy": "--version",
    "scala": "--version",
}
INFO_OPTIONS = ("-V", "-VV", "--version", "-v", "-h", "--help")
MAKE = """-n -s -k -i -B -j? -l? -w -r -R -d -q -C: -f: --dry-run --silent --quiet --keep-going --jobs[=] --always-make
    --directory= --file= --makefile= --question --touch --version --help --no-print-directory --print-directory
    --output-sync[=]"""
NPM = """-s -g --silent --version -v --if-present --workspaces --workspace= -w: --omit= --include= --json --depth=
    --long --all --prod"""
NPM_READ_COMMANDS = split_names("ls list outdated view info audit root prefix bin doctor ping help why explain fund")
PIP = """-r: --requirement= -e: --editable= -q -v -U --upgrade --quiet --verbose --no-deps --no-cache-dir
    --disable-pip-version-check --version -V --outdated --format= -c: --constraint= --user --no-input --dry-run
    --require-hashes --no-build-isolation"""
CARGO = """-q -v --quiet --verbose --release -r --all --workspace -p: --package= --bin= --lib --bins --tests --test= --example=
    --examples --benches --bench= --all-targets --all-features --no-default-features --features= -F: --locked --offline
    --frozen --no-run --no-fail-fast --message-format= --color= -j: --jobs= --check --version -V --no-deps --depth=
    -D: -W: -A: --fix --allow-dirty"""
GO = """-v -race -count= -run= -short -cover -coverprofile=> -bench= -benchmem -timeout= -o=> -n -x -json -tags= -failfast -m -w
    -l -d -parallel= -p="""
COMPILER = """-c -S -E -g -g0 -g1 -g2 -g3 -ggdb -o:> -O* -I* -L* -l* -D* -U* -std=* -Wall -Wextra -Werror -Werror=* -Wpedantic
    -pedantic -Wno-* -Wshadow -Wconversion -Wformat* -W -w -fPIC -fPIE -fpic -fno-* -fsanitize=* -fstack-protector*
    -shared -static -pthread -m64 -m32 -march=* -mtune=* -M -MM -MD -MMD -MF:> -MT: -MP -pipe -v --version -dumpversion
    -dumpmachine -x:"""
SHELL = "-e -u -x -v -n -l -i -o: -O: --norc --noprofile --login --posix"
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
OWN_PACKAGE = re.compile(r"\.(/[\w./-]*)?(\[[\w,-]+\])?")  # the workspace itself or a directory in it
LOCAL_SUBCOMMANDS = {
    "cargo": split_names("build check test run clippy fmt doc tree metadata bench clean version"),
    "go": split_names("build test vet fmt run list version mod env clean doc"),
}


def check_interpreter(call: ProgramCall) -> None:
    known = INTERPRETERS[call.name]
    texts = [word.text for word in call.arguments]
    # Arguments after the module name belong to the module.
    own = call.arguments[: texts.index("-m") + 2] if "-m" in texts else call.arguments
    found = call.read(known, own, stop_at_operand=True)
    if found.unknown or found.has(*INFO_OPTIONS):
        return
    if module := found.value("-m"):
        if found.after < len(own):
            call.doubt(Reason("code.unclear"))
        python_modules.check_module(call, module, call.arguments[len(own) :])
        return
    rest = call.arguments[found.after :]
    if found.has("--test"):
        call.run_code(*rest)  # the files to test; without any, it searches for them
        return
    script = rest[0].text if rest else None
    if script is None or script in ("-", ""):
        call.doubt(Reason("code.input"), "gate.inline-code")
        return
    if "://" in script:
        call.doubt(Reason("code.url", url=script), "gate.inline-code")
    call.run_code(rest[0])


def check_make(call: ProgramCall) -> None:
    found = call.read(MAKE)
    if found.has("--version", "--help"):
        return
    for operand in found.operands:
        if operand.text is None or "=" in operand.text:
            call.doubt(Reason("make.variable"))
    files = [file for name in ("-f", "--file", "--makefile") for file in found.given.get(name, [])]
    if any(file.text in (None, "-") for file in files):
        call.doubt(Reason("make.input"), "gate.inline-code")
    if found.has("-C") and found.has("--directory"):
        call.doubt(Reason("make.directory"))
    directory = call.resolve_directories([*found.given.get("-C", []), *found.given.get("--directory", [])])
    call.run_code(*(files or map(literal_word, MAKEFILES)), cwds=directory)


def check_npm(call: ProgramCall) -> None:
    found = call.read(NPM, _before_double_dash(call))
    first, *rest = found.texts() or [None]
    if found.has("--version", "-v"):
        return
    call.run_code(literal_word("package.json"))
    if first in NPM_READ_COMMANDS:
        return
    if found.has("-g") or not (
        (first in ("test", "t", "start", "build") and None not in rest)
        or (first in ("run", "run-script") and len(rest) <= 1 and None not in rest)
        or (first in ("ci", "install", "i") and not rest)
    ):
        call.doubt(Reason("npm.command"))


def check_pip(call: ProgramCall) -> None:
    found = call.read(PIP)
    first = found.operands[0].text if found.operands else None
    if found.has("--version", "-V") or first in ("list", "show", "freeze", "check", "inspect"):
        return
    named = [*found.operands[1:], *(word for option in ("-e", "--editable") for word in found.given.get(option, []))]
    lists = [word for option in ("-r", "--requirement", "-c", "--constraint") for word in found.given.get(option, [])]
    if first != "install" or any(not OWN_PACKAGE.fullmatch(each.text or "") for each in named):
        call.doubt(Reason("pip.packages"))
        return
    if any(each.text is None or "://" in each.text or each.text.startswith("-") for each in lists):
        call.doubt(Reason("pip.requirements"))
    packages = [literal_word((each.text or "").partition("[")[0]) for each in named]
    settings = [literal_word(f"{each.text}/{name}") for each in packages for name in ("setup.py", "setup.cfg", "pyproject.toml")]
    call.run_code(*lists, *packages, *settings)


def check_subcommands(call: ProgramCall) -> None:
    """Check cargo and go: subcommands that don't work on the workspace's own code need approval."""
    known, single_dash = (CARGO, False) if call.name == "cargo" else (GO, True)
    found = call.read(known, _before_double_dash(call), single_dash=single_dash)
    first, *rest = found.texts() or [None]
    if found.has("--version", "-V") and not found.operands:
        return
    # Workspace settings can name programs, such as another compiler, for nearly every subcommand.
    paths = [each for each in found.operands[1:] if call.name == "go" and (each.text or each.lead).startswith((".", "/", "~"))]
    call.run_code(*map(literal_word, ("Cargo.toml", "build.rs") if call.name == "cargo" else ("go.mod",)), *paths)
    if first not in LOCAL_SUBCOMMANDS[call.name]:
        call.doubt(Reason("code.subcommand", name=first) if first else Reason("code.no_subcommand"))
    elif call.name == "go" and (
        (first == "mod" and rest[:1] not in (["tidy"], ["download"], ["verify"], ["graph"], ["why"]))
        or (first == "env" and found.has("-w"))
        or (first == "run" and any(each is None or not each.startswith(".") for each in rest[:1] or [None]))
    ):
        call.doubt(Reason("code.use", name=first))
    if first == "clippy" and found.has("--fix"):
        call.doubt(Reason("cargo.fix"))


def check_compiler(call: ProgramCall) -> None:
    found = call.read(COMPILER, single_dash=True)
    if any((operand.text or "").startswith("@") for operand in found.operands):
        call.doubt(Reason("compiler.options_file"))


def check_version_only(call: ProgramCall) -> None:
    """Check programs that can start others or change the system: only printing their version or help is known to be safe."""
    if not (len(call.arguments) == 1 and call.arguments[0].text in ("--version", "--help")):
        call.doubt(Reason("program.powerful"))


def check_shell(call: ProgramCall) -> None:
    if [word.text for word in call.arguments] != ["--version"]:
        call.doubt(Reason("code.shell"), "gate.inline-code")
        found = parse_arguments(call.arguments, parse_option_spec(SHELL), stop_at_operand=True)
        if not found.unknown:
            call.run_code(*call.arguments[found.after :][:1])


def _before_double_dash(call: ProgramCall) -> tuple[Word, ...]:
    """Return the arguments before `--`: those after it belong to the program that is run."""
    texts = [word.text for word in call.arguments]
    return call.arguments[: texts.index("--")] if "--" in texts else call.arguments


def literal_word(text: str) -> Word:
    return Word(text=text, lead=text)


ArgumentRule = Callable[[ProgramCall], None]
