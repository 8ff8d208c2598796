"""Invalid parameters, generated from each method's schema: rejected by name, and without side effects.

Numbers and booleans sent as text are accepted, so a wrong value here is of a type that can't be converted.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest

from clawsite.gateway.protocol.params import Params
from clawsite.gateway.server import registry
from clawsite.gateway.server.schema import protocol_schema
from tests.harness.devices import FakeDevice, connect_node
from tests.harness.owned_objects import snapshot_rows
from tests.harness.protocol import InProcessClient, running_gateway

METHODS = {name: method for name, method in protocol_schema()["methods"].items() if name != "connect"}
WRONG = [{"un": "heard"}, ["unheard"], "unheard", 1.5]
USED = {"AccessToken", "Device"}  # models whose last use is recorded later


def bad_params(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (parameter, parameters): each required one omitted, and each with a value of a wrong type."""
    defs = {"$defs": schema.get("$defs", {})}
    properties = schema.get("properties", {})
    needed = {name: example({**properties[name], **defs}) for name in schema.get("required", ())}
    for name in needed:
        yield name, {other: value for other, value in needed.items() if other != name}
    for name, part in properties.items():
        right = jsonschema_rs.Draft202012Validator({**part, **defs})
        for value in [value for value in WRONG if not right.is_valid(value)][:1]:
            yield name, {**needed, name: value}


def example(schema: dict[str, Any]) -> Any:
    """Return a value that the schema accepts."""
    candidates = ["x", 1, True, {}, [], None, *schema.get("enum", ()), "x" * schema.get("minLength", 0)]
    right = jsonschema_rs.Draft202012Validator(schema)
    return next(value for value in candidates if right.is_valid(value))


async def faults_of(client: InProcessClient, role: str) -> list[str]:
    """Return what is wrong with the responses to all bad parameters of a role's methods."""
    found = []
    for name, method in METHODS.items():
        for parameter, params in bad_params(method["params"]) if method["role"] == role else ():
            error = (await client.request(name, params)).get("error") or {}
            paths = [issue["path"] for issue in error.get("details", {}).get("issues", ())]
            if error.get("code") != "INVALID_REQUEST" or not any(f"{path}/".startswith(f"/{parameter}/") for path in paths):
                found.append(f"{name} {params}: {error or 'taken'}, not a word about {parameter}")
    return found


def kept() -> dict[str, Any]:
    return {table: sorted(map(str, rows)) if table in USED else rows for table, rows in snapshot_rows().items()}


@pytest.fixture
def everybody(make_user):
    """A user who can call everything."""
    return make_user("User", "Operator", "Approver", "Auditor")


async def test_invalid_parameters_are_rejected_by_name_and_store_nothing(everybody, make_token):
    async with running_gateway():
        client = await InProcessClient.open(make_token(everybody))
        before = kept()
        assert await faults_of(client, "operator") == []
        assert kept() == before
        assert (await client.request("health"))["ok"]
        client.disconnect()


async def test_invalid_node_parameters_are_rejected_and_store_nothing(everybody, make_token):
    async with running_gateway():
        node = await connect_node(FakeDevice(), make_token(everybody))
        before = kept()
        assert await faults_of(node, "node") == []
        assert kept() == before
        assert (await node.request("node.event", {"event": "still.here"}))["ok"]
        node.disconnect()


async def test_method_without_validation_is_detected(everybody, make_token, monkeypatch):
    """Deliberate fault: the published schema is not the one that is checked."""

    class Careless(Params):
        query: Any = None

    async def nothing(call, params):
        return {"titles": [], "results": []}

    search = replace(registry.list_methods()["sessions.search"], params=Careless, handler=nothing)
    monkeypatch.setitem(registry.list_methods(), "sessions.search", search)
    async with running_gateway():
        client = await InProcessClient.open(make_token(everybody))
        found = await faults_of(client, "operator")
        client.disconnect()
    assert [fault for fault in found if fault.startswith("sessions.search {'query': ")]
    assert not [fault for fault in found if not fault.startswith("sessions.search ")]


def test_every_constrained_parameter_is_tried():
    """An example that is rejected, or a schema without limits, would leave a parameter out."""
    free = {
        (name, parameter)
        for name, method in METHODS.items()
        for parameter in method["params"].get("properties", {})
        if parameter not in {tried for tried, _ in bad_params(method["params"])}
    }
    assert free == FREE
    assert {method.role for method in registry.list_methods().values()} == {"operator", "node"}


# Any value is allowed: it is passed on unchanged.
FREE = {
    ("node.broadcast", "payload"),
    ("node.event", "payload"),
    ("node.invoke", "params"),
    ("node.invoke.result", "payload"),
}
