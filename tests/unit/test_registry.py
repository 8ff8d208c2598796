"""Methods: none without a scope, all with types, and docs/protocol.md matches the code."""

from pathlib import Path

import jsonschema
import pytest

from clawsite.api.http.permissions import RequireScope
from clawsite.gateway.protocol.event_catalog import EVENTS
from clawsite.gateway.protocol.scopes import Scope, has_scope
from clawsite.gateway.server import docs, registry
from clawsite.gateway.server.rate_limits import Bucket
from clawsite.gateway.server.registry import Nothing, method
from clawsite.gateway.server.schema import protocol_schema
from tests.unit.gateway_fakes import Clock

PROJECT = Path(__file__).resolve().parents[2]


def test_method_without_scope_cannot_be_declared():
    with pytest.raises(TypeError, match="scope"):
        method("careless")


def test_mutating_method_must_declare_tool_limits():
    async def handler(call: object, params: Nothing) -> dict[str, str]:
        """Words."""
        return {}

    for scope in set(Scope) - {Scope.READ}:
        with pytest.raises(ValueError, match="tool limits"):
            method("careless", scope=scope)(handler)
        with pytest.raises(ValueError, match="tool limits"):
            method("careless", scope=(scope, Scope.APPROVALS))(handler)
    with pytest.raises(ValueError, match="tool limits"):
        RequireScope(Scope.WRITE)


def test_any_one_of_several_scopes_is_sufficient():
    any_of = (Scope.READ, Scope.APPROVALS)
    assert [has_scope(frozenset({scope}), *any_of) for scope in Scope] == [True, True, False, True, False]
    assert registry.list_methods()["exec.approval.list"].scopes == any_of


def test_duplicate_or_undocumented_method_is_rejected():
    async def handler(call: object, params: Nothing) -> dict[str, str]:
        """Words."""
        return {}

    async def silent(call: object, params: Nothing) -> dict[str, str]:
        return {}

    registry.list_methods()
    with pytest.raises(ValueError, match="twice"):
        method("health", scope=Scope.READ)(handler)
    with pytest.raises(ValueError, match="docstring"):
        method("silent", scope=Scope.READ)(silent)


def test_every_method_and_event_has_a_schema():
    schema = protocol_schema()
    assert set(schema["methods"]) == {"connect", *registry.list_methods()}
    assert set(schema["events"]) == set(EVENTS)
    for part in [*schema["methods"].values()]:
        jsonschema.Draft202012Validator.check_schema(part["params"])
        jsonschema.Draft202012Validator.check_schema(part["result"])
    for name, one in registry.list_methods().items():
        assert schema["methods"][name]["params"]["additionalProperties"] is False
        assert schema["methods"][name]["scopes"] == list(one.scopes)


def test_protocol_docs_match_code():
    """`claw protocol-docs > docs/protocol.md` after changing a method."""
    assert (PROJECT / "docs/protocol.md").read_text() == docs.render_protocol_docs()


def test_token_bucket_allows_burst_then_fixed_rate():
    clock = Clock()
    bucket = Bucket(10, 3, now=clock)
    assert [bucket.wait_ms() for _ in range(3)] == [0, 0, 0]
    assert 0 < bucket.wait_ms() <= 101
    clock.pass_(0.1)
    assert bucket.wait_ms() == 0
    clock.pass_(100)
    assert [bucket.wait_ms() == 0 for _ in range(4)] == [True, True, True, False]
