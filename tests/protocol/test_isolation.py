"""No method reveals anything about another user's objects: they look as if they didn't exist.

The methods come from the registry, so new ones are checked automatically; isolation_params.py defines what their parameters refer
to.
"""

import itertools

import pytest

from agents.context.workspace import workspace_path
from clawsite.accounts.groups import scopes_of
from clawsite.gateway.methods import agent_files
from clawsite.gateway.models import Device, PairingRequest
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server import registry
from sessions_app.models import Attachment, Run, Session
from sessions_app.sessions.service import ensure_session
from tests.harness.owned_objects import (
    MEMORY_FILE,
    create_owned_objects,
    freeze_open_run,
    memory_text,
    missing_names,
    snapshot_rows,
)
from tests.harness.protocol import InProcessClient, NoResponse, running_gateway
from tests.harness.users import add_permissions
from tests.protocol.isolation import (
    find_leaks,
    find_reference,
    isolation_cases,
    normalize,
    parameters,
    plain_calls,
    serialize_frame,
    unchecked_parameters,
)
from tests.protocol.isolation_params import EXAMPLES, MAIN, PRIVILEGED
from tools_app.models import Approval

SECRET = "xanthophyll"
OFFICES = {Scope.ADMIN, Scope.APPROVALS, Scope.PAIRING}
METHODS = registry.list_methods()
_numbers = itertools.count(1)

pytestmark = pytest.mark.usefixtures("_fast_passwords")


@pytest.fixture
def people(make_user):
    """A caller with a few objects, a user with one of every kind, and a third who is only a name.

    The caller may also pair their own devices: without permission over other users' objects, no one can call more methods.
    """
    theirs = create_owned_objects(make_user(), SECRET)
    freeze_open_run(theirs, by=make_user("Operator"))
    make_user(name=EXAMPLES["username"])
    return add_permissions(make_user(), "accounts.pair_devices"), theirs


class Caller:
    def __init__(self, client, user):
        self.client, self.user = client, user
        ensure_session(user, MAIN)
        self.own = create_owned_objects(user, "ordinary")

    async def ask(self, cell, name, timeout=30.0):
        """Return the response as text. Some calls wait for people; for them, waiting is the response."""
        params = cell.filled(name, self.own, f"key-{next(_numbers)}")
        try:
            return serialize_frame(await self.client.request(cell.where, params, timeout=timeout))
        except NoResponse:
            return "no answer yet"

    async def ask_about_own(self, cell):
        self.own = create_owned_objects(self.user, "ordinary")  # the last one may have been deleted by now
        return await self.ask(cell, self.own.named(cell.kind), timeout=3.0)


async def found_leaks(caller, theirs):
    names = missing_names(theirs)
    for method in METHODS.values():
        for cell in isolation_cases(method):
            nothing = names[cell.kind]
            to_nothing, answer = await caller.ask(cell, nothing), await caller.ask(cell, theirs.named(cell.kind))
            for leak in find_leaks(cell, theirs, answer, to_nothing, nothing):
                yield leak
        for cell in plain_calls(method):
            if SECRET in (answer := await caller.ask(cell, None)):
                yield f"{cell.where} tells the secret: {answer[:300]}"
    for text in caller.client.texts:
        if is_event_of(text, SECRET):
            yield f"an event tells the secret: {text[:300]}"


def is_event_of(text, word):
    return text.startswith('{"type":"event"') and word in text


@pytest.mark.parametrize("method", sorted(METHODS))
def test_table_classifies_every_parameter(method):
    for parameter in parameters(METHODS[method]):
        try:
            find_reference(method, parameter)
        except KeyError:
            pytest.fail(
                f"{method} has the parameter {parameter}: say in isolation_params.py whose things it names, or that it is plain"
            )


async def test_no_method_reveals_foreign_objects(people, make_token):
    user, theirs = people
    before = snapshot_rows()
    async with running_gateway():
        caller = Caller(await InProcessClient.open(make_token(user)), user)
        found = [leak async for leak in found_leaks(caller, theirs)]
        caller.client.disconnect()
    assert not found, "\n".join(found)
    assert changed(before, but=("User", user.pk)) == []


def changed(before, *, but):
    """Return rows that existed before the caller's calls and are now gone or different."""
    now = snapshot_rows()
    touched = [(table, pk) for table, rows in before.items() for pk, row in rows.items() if now[table].get(pk) != row]
    return [row for row in touched if row != but]


async def test_every_table_parameter_finds_own_objects(people, make_token):
    """With a wrong table, a method would count as safe although it was never called properly."""
    user, theirs = people
    differs = {}
    async with running_gateway():
        caller = Caller(await InProcessClient.open(make_token(user)), user)
        for method in METHODS.values():
            for cell in isolation_cases(method):
                nothing = missing_names(theirs)[cell.kind]
                own, to_nothing = await caller.ask_about_own(cell), await caller.ask(cell, nothing)
                names = (caller.own.named(cell.kind), nothing)
                if method.name in PRIVILEGED:
                    assert "MISSING_SCOPE" in own and "MISSING_SCOPE" in to_nothing
                else:
                    assert "MISSING_SCOPE" not in own
                    differs[cell] = normalize(own, *names) != normalize(to_nothing, *names)
        caller.client.disconnect()
    unseen = unchecked_parameters(differs)
    assert not unseen, ", ".join(unseen)


async def test_table_lists_exactly_the_methods_denied_to_caller(people):
    user, _theirs = people
    held = scopes_of(user)
    refused = {name for name, method in METHODS.items() if method.role == "operator" and held.isdisjoint(method.scopes)}
    assert refused == set(PRIVILEGED)


async def test_privileged_methods_are_denied_to_plain_user(make_user, make_token):
    user = make_user()
    offices = [method for method in METHODS.values() if method.scopes and OFFICES.issuperset(method.scopes)]
    assert {method.name for method in offices} > set(PRIVILEGED)
    async with running_gateway():
        caller = Caller(await InProcessClient.open(make_token(user)), user)
        for method in offices:
            for cell in [*isolation_cases(method), *plain_calls(method)]:
                name = caller.own.names.get(cell.kind)
                assert "MISSING_SCOPE" in await caller.ask(cell, name), str(cell)
        caller.client.disconnect()


async def test_agent_files_are_from_own_workspace(people, make_token):
    user, theirs = people
    async with running_gateway():
        caller = Caller(await InProcessClient.open(make_token(user)), user)
        read = await caller.client.request("agents.files.get", {"agentId": "main", "name": MEMORY_FILE})
        listed = await caller.client.request("agents.files.list", {"agentId": "main"})
        caller.client.disconnect()
    assert read["payload"]["file"]["content"] == memory_text("ordinary") != memory_text(theirs.secret)
    there = {file["name"]: file["size"] for file in listed["payload"]["files"] if not file["missing"]}
    assert there == {MEMORY_FILE: len(memory_text("ordinary"))}


async def test_matrix_detects_shared_workspace(people, make_token, monkeypatch):
    """Deliberate fault: everyone gets the same workspace."""
    user, theirs = people
    monkeypatch.setattr(agent_files, "workspace_path", lambda agent, user_pk: workspace_path(agent, theirs.owner.pk))
    async with running_gateway():
        caller = Caller(await InProcessClient.open(make_token(user)), user)
        assert (await anext(found_leaks(caller, theirs), "")).startswith("agents.files.get tells the secret")
        caller.client.disconnect()


@pytest.mark.parametrize("model", [Session, Run, Attachment, Approval, Device, PairingRequest])
async def test_matrix_detects_unscoped_lookup(model, people, make_token, monkeypatch):
    """Deliberate fault: one table shows everything to everyone."""
    user, theirs = people
    monkeypatch.setattr(type(model.objects.all()), "for_user", lambda self, user: self)
    async with running_gateway():
        caller = Caller(await InProcessClient.open(make_token(user)), user)
        assert await anext(found_leaks(caller, theirs), None)
        caller.client.disconnect()
