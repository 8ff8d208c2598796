"""Code and module names in the documentation exist."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent
OURS = ("agents", "clawsite", "sessions_app", "tools_app")
PAGES = sorted([*DOCS.glob("docs/*.md"), *DOCS.glob("docs/adr/*.md"), DOCS / "README.md", DOCS / "CONTRIBUTING.md"])
CODE_BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
# Method names of the protocol, and an entry point.
METHODS = re.compile(r"agents\.(list|create|update|delete|files\.\w+)|clawsite\.plugins")
MODULE = re.compile(rf"`((?:{'|'.join(OURS)})(?:\.[a-z_]+)+)`")


def exists(dotted: str) -> bool:
    """Whether this is a module, or an attribute of one."""
    module, attributes = dotted, []
    while True:
        try:
            if importlib.util.find_spec(module):
                break
        except ModuleNotFoundError:
            pass
        module, _, attribute = module.rpartition(".")
        attributes.insert(0, attribute)
        if not module:
            return False
    value = importlib.import_module(module) if attributes else None
    for attribute in attributes:
        if not hasattr(value, attribute):
            return False
        value = getattr(value, attribute)
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_and_imports_in_the_docs_exist(page: Path) -> None:
    text = page.read_text()
    names = {name for name in MODULE.findall(text) if not METHODS.fullmatch(name)}
    for code in CODE_BLOCK.findall(text):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
    assert not {name for name in names if not exists(name)}


def test_missing_name_is_reported() -> None:
    assert exists("tools_app.core.definition.ToolResult")
    assert not exists("tools_app.core.definition.Declined")
    assert not exists("tools_app.no_such_module")
