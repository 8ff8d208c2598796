"""Find the methods that tests call successfully, and with which idempotency keys, from the scripts and the tests' source code.

Only calls that must succeed count: in a script, a request whose response is expected to be `ok`; in Python, `.call("method", …)` of
a protocol client and `.request("method", …)` of a stack's client, which both raise on an error. A key counts if it is a literal in
the parameters or in a dict assigned in the test.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.protocol.scripts import read_scripts


@dataclass(frozen=True)
class SuccessfulRequest:
    """`test` names the script or function."""

    method: str
    test: str
    key: str | None


def requests_in_scripts(file: Path) -> Iterator[SuccessfulRequest]:
    """A request with two responses counts once."""
    for name, lines in read_scripts(file):
        sent_requests, counted = {}, set()
        for number, line in enumerate(lines):
            on, sent, expected = line.get("on", "a"), line.get("send"), line.get("expect", {})
            if isinstance(sent, dict) and "method" in sent:
                sent_requests[on, sent.get("id")] = (number, sent)
            elif expected.get("ok") is True and (on, expected.get("id")) in sent_requests:
                at, request = sent_requests[on, expected["id"]]
                if at not in counted:
                    counted.add(at)
                    key = (request.get("params") or {}).get("idempotencyKey") or request.get("idempotencyKey")
                    yield SuccessfulRequest(request["method"], f"{file.name}: {name}", key)


def requests_in_tests(file: Path) -> Iterator[SuccessfulRequest]:
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, (ast.AsyncFunctionDef, ast.FunctionDef)) and node.name.startswith("test_"):
            for method, params in _successes(node):
                yield SuccessfulRequest(method, f"{file.name}: {node.name}", _key(params, _dicts(node)))


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
    """Yield all nodes except those in `pytest.raises` blocks."""
    if isinstance(node, ast.With) and any(_is_call_of(item.context_expr, "raises") for item in node.items):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _expected_to_pass(child)


def _is_call_of(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


def _dicts(test: ast.AST) -> dict[str, ast.Dict]:
    """Return the dicts assigned to a name exactly once."""
    assigned = [node for node in ast.walk(test) if isinstance(node, ast.Assign)]
    given = [(target.id, node.value) for node in assigned for target in node.targets if isinstance(target, ast.Name)]
    names = [name for name, _ in given]
    return {name: value for name, value in given if isinstance(value, ast.Dict) and names.count(name) == 1}


def _key(params: ast.expr | None, dicts: dict[str, ast.Dict]) -> str | None:
    """Return the literal idempotency key; the last one wins, as in the dict itself."""
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
