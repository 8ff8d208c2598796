"""Nobody finds out anything about what is somebody else's, by any method: it is as if it were not there.

The methods come from the registry, so a new one is looked at by itself; what its parameters name is said in isolation_params.py.
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
from tests.harness.owned_objects import MEMORY, furnish, may_also, memory_of, of_nothing, rows_now, stopped
from tests.harness.protocol import Desk, NoAnswer, gateway
from tests.protocol.isolation import blind, cells, leaks, levelled, parameters, plain_calls, taken_by, told_of
from tests.protocol.isolation_params import EXAMPLES, MAIN, OF_OFFICE
from tools_app.models import Approval

SECRET = "xanthophyll"
OFFICES = {Scope.ADMIN, Scope.APPROVALS, Scope.PAIRING}
METHODS = registry.list_methods()
_numbers = itertools.count(1)

pytestmark = pytest.mark.usefixtures("_quick_passwords")


@pytest.fixture
def people(person):
    """A caller with a little of their own, somebody with one of everything, and a third who is only a name.

    The caller may also pair devices, their own: nobody has more methods without a right over everybody's things.
    """
    theirs = furnish(person(), SECRET)
    stopped(theirs, by=person("Operator"))
    person(name=EXAMPLES["username"])
    return may_also(person(), "accounts.pair_devices"), theirs


class Caller:
    def __init__(self, desk, user):
        self.desk, self.user = desk, user
        ensure_session(user, MAIN)
        self.own = furnish(user, "ordinary")

    async def ask(self, cell, name, patience=30.0):
        """The answer in words. Some calls wait for people; that they wait is their answer."""
        params = cell.filled(name, self.own, f"key-{next(_numbers)}")
        try:
            return told_of(await self.desk.request(cell.where, params, patience=patience))
        except NoAnswer:
            return "no answer yet"

    async def ask_about_own(self, cell):
        self.own = furnish(self.user, "ordinary")  # the last one may have been deleted by now
        return await self.ask(cell, self.own.named(cell.kind), patience=3.0)


async def found_leaks(caller, theirs):
    names = of_nothing(theirs)
    for method in METHODS.values():
        for cell in cells(method):
            nothing = names[cell.kind]
            to_nothing, answer = await caller.ask(cell, nothing), await caller.ask(cell, theirs.named(cell.kind))
            for leak in leaks(cell, theirs, answer, to_nothing, nothing):
                yield leak
        for cell in plain_calls(method):
            if SECRET in (answer := await caller.ask(cell, None)):
                yield f"{cell.where} tells the secret: {answer[:300]}"
    for text in caller.desk.texts:
        if is_event_of(text, SECRET):
            yield f"an event tells the secret: {text[:300]}"


def is_event_of(text, word):
    return text.startswith('{"type":"event"') and word in text


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_table_says_what_every_parameter_names(method):
    for parameter in parameters(METHODS[method]):
        try:
            taken_by(method, parameter)
        except KeyError:
            pytest.fail(
                f"{method} has the parameter {parameter}: say in isolation_params.py whose things it names, or that it is plain"
            )


async def test_no_method_tells_anything_about_what_is_somebody_elses(people, token_of):
    user, theirs = people
    before = rows_now()
    async with gateway():
        caller = Caller(await Desk.open(token_of(user)), user)
        found = [leak async for leak in found_leaks(caller, theirs)]
        caller.desk.leave()
    assert not found, "\n".join(found)
    assert changed(before, but=("User", user.pk)) == []


def changed(before, *, but):
    """Rows that were there before the caller did anything, and are gone or different."""
    now = rows_now()
    touched = [(table, pk) for table, rows in before.items() for pk, row in rows.items() if now[table].get(pk) != row]
    return [row for row in touched if row != but]


async def test_every_parameter_of_the_table_finds_ones_own_things(people, token_of):
    """Otherwise a wrong table would call a method safe that was never asked properly."""
    user, theirs = people
    differs = {}
    async with gateway():
        caller = Caller(await Desk.open(token_of(user)), user)
        for method in METHODS.values():
            for cell in cells(method):
                nothing = of_nothing(theirs)[cell.kind]
                own, to_nothing = await caller.ask_about_own(cell), await caller.ask(cell, nothing)
                names = (caller.own.named(cell.kind), nothing)
                if method.name in OF_OFFICE:
                    assert "MISSING_SCOPE" in own and "MISSING_SCOPE" in to_nothing
                else:
                    assert "MISSING_SCOPE" not in own
                    differs[cell] = levelled(own, *names) != levelled(to_nothing, *names)
        caller.desk.leave()
    unseen = blind(differs)
    assert not unseen, ", ".join(unseen)


async def test_the_table_names_the_methods_that_this_caller_is_refused_and_no_others(people):
    user, _theirs = people
    held = scopes_of(user)
    refused = {name for name, method in METHODS.items() if method.role == "operator" and held.isdisjoint(method.scopes)}
    assert refused == set(OF_OFFICE)


async def test_offices_are_refused_to_a_plain_user(person, token_of):
    user = person()
    offices = [method for method in METHODS.values() if method.scopes and OFFICES.issuperset(method.scopes)]
    assert {method.name for method in offices} > set(OF_OFFICE)
    async with gateway():
        caller = Caller(await Desk.open(token_of(user)), user)
        for method in offices:
            for cell in [*cells(method), *plain_calls(method)]:
                name = caller.own.names.get(cell.kind)
                assert "MISSING_SCOPE" in await caller.ask(cell, name), str(cell)
        caller.desk.leave()


async def test_the_files_of_an_agent_are_those_of_ones_own_workspace(people, token_of):
    user, theirs = people
    async with gateway():
        caller = Caller(await Desk.open(token_of(user)), user)
        read = await caller.desk.request("agents.files.get", {"agentId": "main", "name": MEMORY})
        listed = await caller.desk.request("agents.files.list", {"agentId": "main"})
        caller.desk.leave()
    assert read["payload"]["file"]["content"] == memory_of("ordinary") != memory_of(theirs.word)
    there = {file["name"]: file["size"] for file in listed["payload"]["files"] if not file["missing"]}
    assert there == {MEMORY: len(memory_of("ordinary"))}


async def test_a_workspace_of_somebody_else_turns_the_matrix_red(people, token_of, monkeypatch):
    """The deliberate fault: everybody is shown into the same one."""
    user, theirs = people
    monkeypatch.setattr(agent_files, "workspace_path", lambda agent, user_pk: workspace_path(agent, theirs.owner.pk))
    async with gateway():
        caller = Caller(await Desk.open(token_of(user)), user)
        assert (await anext(found_leaks(caller, theirs), "")).startswith("agents.files.get tells the secret")
        caller.desk.leave()


@pytest.mark.parametrize("model", [Session, Run, Attachment, Approval, Device, PairingRequest])
async def test_a_look_up_that_forgets_whose_it_is_turns_the_matrix_red(model, people, token_of, monkeypatch):
    """The deliberate fault: one table shows everything to everybody."""
    user, theirs = people
    monkeypatch.setattr(type(model.objects.all()), "for_user", lambda self, user: self)
    async with gateway():
        caller = Caller(await Desk.open(token_of(user)), user)
        assert await anext(found_leaks(caller, theirs), None)
        caller.desk.leave()
