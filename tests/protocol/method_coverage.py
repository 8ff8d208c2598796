"""Which methods the tests show to succeed, and with which idempotency keys: read from the conversations and the code of the tests.

Only what cannot pass otherwise counts. In a conversation that is a request whose answer is expected to be `ok`; in a test of
Python it is `.call("method", …)` of a socket, and `.request("method", …)` of the client that a stack makes: both raise where the
answer is an error. A key counts where it can be read: in the parameters themselves, or in the dict of that name in the test.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.protocol.scripts import conversations


@dataclass(frozen=True)
class Shown:
    """One successful request; `test` is the conversation or function in which it is."""

    method: str
    test: str
    key: str | None


def in_conversations(file: Path) -> Iterator[Shown]:
    """A request with two answers is one request."""
    for name, lines in conversations(file):
        asked, counted = {}, set()
        for number, line in enumerate(lines):
            on, sent, expected = line.get("on", "a"), line.get("send"), line.get("expect", {})
            if isinstance(sent, dict) and "method" in sent:
                asked[on, sent.get("id")] = (number, sent)
            elif expected.get("ok") is True and (on, expected.get("id")) in asked:
                at, request = asked[on, expected["id"]]
                if at not in counted:
                    counted.add(at)
                    key = (request.get("params") or {}).get("idempotencyKey") or request.get("idempotencyKey")
                    yield Shown(request["method"], f"{file.name}: {name}", key)


def in_tests(file: Path) -> Iterator[Shown]:
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, (ast.AsyncFunctionDef, ast.FunctionDef)) and node.name.startswith("test_"):
            for method, params in _successes(node):
                yield Shown(method, f"{file.name}: {node.name}", _key(params, _dicts(node)))


def _successes(test: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    clients = {
        item.optional_vars.id
        for node in ast.walk(test)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and _is_call_of(item.context_expr, "client")
    }
    for node in _expected_to_pass(test):
        match node:
            case ast.Call(func=ast.Attribute(attr="call"), args=[ast.Constant(str(method)), *rest]):
                yield method, rest[0] if rest else None
            case ast.Call(func=ast.Attribute(ast.Name(name), "request"), args=[ast.Constant(str(method)), *rest]) if (
                name in clients
            ):
                yield method, rest[0] if rest else None


def _expected_to_pass(node: ast.AST) -> Iterator[ast.AST]:
    """Everything but what must raise."""
    if isinstance(node, ast.With) and any(_is_call_of(item.context_expr, "raises") for item in node.items):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _expected_to_pass(child)


def _is_call_of(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


def _dicts(test: ast.AST) -> dict[str, ast.Dict]:
    """The dicts that have a name in a test; a name that is given twice names none."""
    assigned = [node for node in ast.walk(test) if isinstance(node, ast.Assign)]
    given = [(target.id, node.value) for node in assigned for target in node.targets if isinstance(target, ast.Name)]
    names = [name for name, _ in given]
    return {name: value for name, value in given if isinstance(value, ast.Dict) and names.count(name) == 1}


def _key(params: ast.expr | None, dicts: dict[str, ast.Dict]) -> str | None:
    """The last one counts, as in the dict itself."""
    if isinstance(params, ast.Name):
        params = dicts.get(params.id)
    if not isinstance(params, ast.Dict):
        return None
    key = None
    for name, value in zip(params.keys, params.values, strict=True):
        if name is None:
            key = _key(value, dicts) or key
        elif isinstance(name, ast.Constant) and name.value == "idempotencyKey":
            key = value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None
    return key
