"""docs/security.md: the tests and deliberate faults that it names exist, and every lesson and promise has some."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs/security.md").read_text()
MUTANTS = ("faults/test_exec_mutants.py", "faults/test_gate_mutants.py", "faults/test_guard_mutants.py")
FILE = re.compile(r"`([\w/]+\.py)`")


def rows() -> dict[str, tuple[str, str]]:
    """Lesson or promise -> its tests, its faults."""
    section = PAGE.partition("### Tests and deliberate faults")[2].partition("\n## ")[0]
    items = [" ".join(item.split()) for item in re.split(r"\n(?=- )", section)]
    found = [re.fullmatch(r"- \*\*([LR]\d+)[^*]*\*\* Tests: (.+)\. Faults: (.+)\.", item) for item in items]
    return {item[1]: (item[2], item[3]) for item in found if item}


def functions_of(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def faults_named(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for part in text.split(";"):
        file, _, names = part.partition(": ")
        (path,) = FILE.findall(file)
        found.setdefault(path, set()).update(re.findall(r"`(\w+)`", names))
    return found


def test_every_security_requirement_is_listed_on_page():
    assert set(rows()) == {f"L{number}" for number in range(1, 12)} | {"R6", "R7", "R14", "R15", "R16"}


def test_tests_and_faults_named_on_page_exist():
    for name, (tests, faults) in rows().items():
        assert FILE.findall(tests), name
        for file in FILE.findall(tests):
            assert (TESTS / file).exists(), file
        for file, named in faults_named(faults).items():
            assert named, name
            assert named <= functions_of(file), f"{name}: {named - functions_of(file)} is not in {file}"


def test_every_mutant_is_listed_on_page():
    told: dict[str, set[str]] = {file: set() for file in MUTANTS}
    for _, faults in rows().values():
        for file, named in faults_named(faults).items():
            told.setdefault(file, set()).update(named)
    for file in MUTANTS:
        source = (TESTS / file).read_text().partition("MUTANTS = [")[2].partition("\n]")[0]
        assert set(re.findall(r"(\w+)\),?$", source, re.MULTILINE)) == told[file], file
