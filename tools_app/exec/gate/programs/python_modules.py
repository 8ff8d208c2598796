"""Argument rules of Python modules (`python3 -m …`, pytest) that run tests and check the workspace's own code.

Python looks for modules in the current directory first, so any of them may run code of the workspace.
"""

import os
import sys

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.programs.invocation import ProgramCall
from tools_app.exec.gate.shell.words import Word

register_reasons(
    {
        "python.module": gettext_noop("the module {module} is not known to be safe"),
        "python.second_file": gettext_noop("it writes to the file named by the second argument"),
        "python.test": gettext_noop("{test} is not a test in the workspace"),
    }
)

PYTEST = """-q -qq -v -vv -vvv -x -s -l -k: -m: -n: -r: --lf --ff --sw --nf --tb= --maxfail= --durations= --co --collect-only
    --exitfirst --quiet --verbose --no-header --no-summary -rA -rs -rf --capture= --color= --last-failed --failed-first
    --stepwise --cov[=] --cov-report= --timeout= --disable-warnings --version --junitxml=> --reruns= --numprocesses="""
UNITTEST = """-v -q -b -f -c -k: -s: -t: -p: --verbose --quiet --buffer --failfast --catch --locals --start-directory= --pattern=
    --top-level-directory="""
# Linters and formatters check files of the workspace; some also fix them.
LINTER = """-q -v --quiet --verbose --version --check --diff --fix --no-fix --select= --ignore= --extend-select= --extend-ignore=
    --max-line-length= --max-complexity= --statistics --count --show-source --disable= --enable= --errors-only -E -j: --jobs=
    --strict --ignore-missing-imports --show-error-codes --pretty --no-color --color -l: --line-length= --profile= --exit-zero
    --no-cache --preview --exclude= --extend-exclude= --check-only"""
MODULES: dict[str, str] = {
    "pytest": PYTEST,
    "unittest": UNITTEST,
    "venv": "--clear --upgrade --without-pip --system-site-packages --prompt= --copies --symlinks --upgrade-deps",
    "json.tool": "--sort-keys --no-ensure-ascii --json-lines --indent= --tab --no-indent --compact",
    "compileall": "-q -f -l -b -j: -r:",
    "py_compile": "-q",
    **dict.fromkeys(("pyflakes", "pycodestyle", "flake8", "pylint", "mypy", "ruff", "black", "isort"), LINTER),
}


def check_module(call: ProgramCall, name: Word, words: tuple[Word, ...]) -> None:
    """Check the module name after `-m` and its arguments."""
    if name.text not in MODULES:
        call.doubt(Reason("python.module", module=name.shown))
        return
    if name.text == "pytest":
        check_pytest(call, words)
        return
    call.run_code()
    found = call.read(MODULES[name.text], words)
    match name.text:
        case "unittest":
            _check_workspace_tests(call, found.operands)
            for option in ("-s", "--start-directory", "-t", "--top-level-directory"):
                call.run_code(*found.given.get(option, []))
        case "json.tool":
            if len(found.operands) > 1 or any(not each.single for each in found.operands):
                call.doubt(Reason("python.second_file"))
        case "venv" | "compileall" | "py_compile":
            for operand in found.operands:
                call.write(operand, content=False)  # the content it writes does not come from the line
        case _:
            call.run_code(*(each for each in found.operands if each.text != "-"))


def check_pytest(call: ProgramCall, words: tuple[Word, ...] | None = None) -> None:
    found = call.read(PYTEST, words)
    if not found.has("--version"):
        call.run_code(*(_test_file(each) for each in found.operands))


def _test_file(test: Word) -> Word:
    """Return the file of a test: tests/test_a.py for tests/test_a.py::TestB::test_c."""
    return test if test.text is None else Word(text=test.text.partition("::")[0] or ".", lead=test.lead)


def _check_workspace_tests(call: ProgramCall, tests: list[Word]) -> None:
    """Check that tests are in the workspace: unittest calls any function by name, and code.interact runs code from stdin."""
    for test in tests[1:] if tests and tests[0].text == "discover" else tests:
        first = (test.text or "").partition("." if "/" not in (test.text or "") else "::")[0]
        call.run_code(test if "/" in (test.text or test.lead) else Word(text=first, lead=first))
        for cwd in call.cwds or ():
            there = any(os.path.exists(os.path.join(cwd, each)) for each in (first, f"{first}.py"))
            if not first or not there or first in sys.stdlib_module_names:
                call.doubt_files(Reason("python.test", test=test.shown), "gate.inline-code")
