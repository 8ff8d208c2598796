"""No URL reveals anything about another user's objects: pages, forms, the admin, downloads, API endpoints.

The URLs come from the URLconf and the OpenAPI document, so new ones are checked automatically; isolation_urls.py defines what their
parts refer to.
"""

import asyncio
import itertools
import json
import re
from urllib.parse import quote, unquote

import pytest
from django.apps import apps
from django.test import AsyncClient

from clawsite.connectors.webhook.models import Hook
from clawsite.gateway.models import Device, PairingRequest
from clawsite.routing.inbound import Inbound, SessionAddress, receive
from sessions_app.models import Attachment, Run, Session
from tests.harness.owned_objects import create_owned_objects, freeze_open_run, missing_names, snapshot_rows
from tests.harness.protocol import running_gateway
from tests.harness.users import add_permissions
from tests.protocol import isolation_urls as addresses
from tests.protocol.isolation import find_leaks, normalize
from tools_app.models import Approval

SECRET = "xanthophyll"
ROUTES = sorted(set(addresses.routes()))
CELLS = [cell for route in ROUTES for cell in addresses.isolation_cases(route)]
_numbers = itertools.count(1)
# Permissions that only concern the caller's own objects: the most that such a caller can have.
DUTIES = ("accounts.pair_devices", "tools_app.view_toolpolicy")
# URLs that respond the same for every object, because their users have permission over all users' objects.
CLOSED = {
    "stops/stop/": "who administers the gateway stops anybody's run",
    "stops/resume/": "the same",
    "admin/": "rows are shown by Django's permissions, which are for all rows of a table",
    "approvals/several/": "who may approve answers everybody's questions",
    "{approval}/decision": "the same",
    "<uuid:pk>/menu/": "the same",
    "<uuid:pk>/extend/": "the same",
    "approvals/grants/<int:pk>/": "who may approve, or change grants, takes any of them back",
}

pytestmark = pytest.mark.usefixtures("_fast_passwords", "_plain_static_files")


@pytest.fixture
def _plain_static_files(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


@pytest.fixture
def people(make_user):
    theirs = create_owned_objects(make_user(), SECRET)
    freeze_open_run(theirs, by=make_user("Operator"))
    return make_user(), theirs


class Caller:
    """A browser in which a user is signed in."""

    def __init__(self, user):
        self.user, self.own = user, create_owned_objects(user, "ordinary")
        self.browser = AsyncClient(raise_request_exception=False)
        self.browser.force_login(user)

    async def ask(self, cell, name):
        """Return status, location, and the whole text."""
        verb, _, route = cell.where.partition(" ")
        if "path" in cell.params:
            answer = await self.ask_rest(cell, verb, route, name)
        else:
            sent = cell.filled(name, self.own, f"key-{next(_numbers)}")
            path = addresses.build_path(route, name)
            if verb == addresses.JSON:
                headers = sent.pop(addresses.HEADERS, {})
                answer = await self.browser.post(path, json.dumps(sent), content_type=addresses.JSON, headers=headers)
            else:
                answer = await (self.browser.get(path, sent) if verb == "GET" else self.browser.post(path, sent))
        return await words_of(answer)

    async def ask_rest(self, cell, verb, route, name):
        filled = cell.filled(name, self.own, f"key-{next(_numbers)}")
        path = "/" + re.sub(r"{(\w+)}", lambda found: str(filled["path"][found[1]]), route)
        sent = None if filled["body"] is None else json.dumps(filled["body"])
        options = {"content_type": addresses.JSON, "query_params": filled["query"]}
        return await self.browser.generic(verb, path, sent or "", **options)


async def within(seconds, asking):
    """Return the response, or that there is none: a request that finds its object may wait for a worker, and none is running."""
    try:
        return await asyncio.wait_for(asking, seconds)
    except TimeoutError:
        return "no answer yet"


async def words_of(answer):
    body = b"".join([part async for part in answer.streaming_content]) if answer.streaming else answer.content
    return f"{answer.status_code} {unquote(answer.headers.get('Location', ''))} {body.decode('utf-8', 'replace')}"


async def all_cells(caller):
    document = await caller.browser.get(addresses.OPENAPI)
    rest = addresses.rest_isolation_cases(document.json()) if document.status_code == 200 else ()
    return [*CELLS, *rest]


def name_of_row(kind):
    """Return the newest row of a table, or None."""
    app, model = kind.removeprefix("row of ").split(".")
    return apps.get_model(app, model)._base_manager.order_by("-pk").values_list("pk", flat=True).first()


def names_for(cell, theirs):
    """Return their username, and one that doesn't exist."""
    if not cell.kind.startswith("row of "):
        return theirs.named(cell.kind), missing_names(theirs)[cell.kind]
    name = name_of_row(cell.kind)
    return name, 2_000_000_000 if isinstance(name, int) else "nothing"


async def found_leaks(caller, theirs):
    for route in ROUTES:
        if "<" not in route and "(" not in route:
            page = await words_of(await caller.browser.get(f"/{route}"))
            if SECRET in page:
                yield f"GET {route} tells the secret"
    for cell in await all_cells(caller):
        name, nothing = names_for(cell, theirs)
        if name is None:
            continue
        answer, to_nothing = await caller.ask(cell, name), await caller.ask(cell, nothing)
        if answer.startswith("500"):
            yield f"{cell} fails: {answer[:300]}"
        for leak in find_leaks(cell, theirs, answer, to_nothing, nothing, name=name):
            yield leak


@pytest.mark.parametrize("route", ROUTES)
def test_table_covers_every_url(route):
    assert addresses.is_listed(route), f"{route} is new: say in isolation_urls.py whose things it names, or that it names none"


async def test_table_covers_every_rest_operation(database):
    document = await AsyncClient().get(addresses.OPENAPI)
    if document.status_code == 404:
        assert not any(route == addresses.REST for route in ROUTES)
        return
    for path, operations in document.json()["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", []):
                try:
                    addresses.rest_kinds(parameter["name"])
                except KeyError:
                    pytest.fail(f"{path} has the parameter {parameter['name']}: say in isolation_urls.py what it names")


NAMED = {  # API clients can also use keys other than `session:<id>`, which is in the table
    "a key in a header": lambda theirs: ({}, {"x-openclaw-session-key": theirs.named("own key")}),
    "a key in our own header": lambda theirs: ({}, {"x-clawsite-session-key": theirs.named("own key")}),
    "an id in a header": lambda theirs: ({}, {"x-openclaw-session-key": theirs.named("session id")}),
    "a header that does not count": lambda theirs: ({}, {"x-openclaw-session-id": theirs.named("session id")}),
    "a user": lambda theirs: ({"user": "them"}, {}),
    "a user who is called like a key": lambda theirs: ({"user": theirs.named("shared key")}, {}),
}


@pytest.mark.parametrize("route", ["v1/chat/completions", "v1/responses", "responses"])
@pytest.mark.parametrize("named", NAMED.values(), ids=NAMED)
async def test_session_name_resolves_to_callers_own_session(route, named, people, eventually):
    """Keys of other users' sessions are ordinary keys: the run is in a session of the caller, which starts empty."""
    user, theirs = people
    body, headers = named(theirs)
    if "user" in body:  # the other user has a session of that name too
        key = f"agent:main:openai-user:{quote(body['user'], safe='')}"
        await receive(Inbound(theirs.owner, SECRET, f"theirs-{next(_numbers)}", SessionAddress(key), verbatim=True))
    async with running_gateway():
        caller = Caller(user)
        before = snapshot_rows()
        words = addresses.CHAT if "chat" in route else addresses.INPUT
        sent = json.dumps({**words, **body})
        post = caller.browser.post(f"/{route}", sent, content_type=addresses.JSON, headers={**headers, "Idempotency-Key": "mine"})
        asking = asyncio.create_task(post)
        run = await eventually(lambda: Run.objects.filter(run_id="mine").select_related("session").first())
        asking.cancel()
        await asyncio.wait([asking])
    assert (run.owner, run.session.owner) == (user, user)
    assert SECRET not in str([(row.text, row.content) for row in run.session.entries.all()])
    now = snapshot_rows()
    touched = [(table, pk) for table, rows in before.items() for pk, row in rows.items() if now[table].get(pk) != row]
    assert [row for row in touched if row[0] not in ("User", "BrowserSession")] == []  # the caller's own: last used just now


@pytest.mark.parametrize(
    ("staff", "duties"), [(False, ()), (True, ()), (False, DUTIES)], ids=["a user", "staff without rights", "a user with duties"]
)
async def test_no_url_reveals_foreign_objects(staff, duties, people):
    user, theirs = people
    user = add_permissions(user, *duties)
    user.is_staff = staff
    user.save()
    before = snapshot_rows()
    async with running_gateway():
        caller = Caller(user)
        found = [leak async for leak in found_leaks(caller, theirs)]
    assert not found, "\n".join(found)
    now = snapshot_rows()
    touched = [(table, pk) for table, rows in before.items() for pk, row in rows.items() if now[table].get(pk) != row]
    assert [row for row in touched if row != ("User", user.pk)] == []


async def test_every_table_url_finds_own_objects(people):
    """With a wrong table, a URL would count as safe although it was never requested properly."""
    user, theirs = people
    user = add_permissions(user, *DUTIES)
    by_address: dict[str, bool] = {}
    async with running_gateway():
        caller = Caller(user)
        for cell in await all_cells(caller):
            address = cell.where.partition(" ")[2]
            if by_address.get(address):  # one part that finds an object is enough
                continue
            if cell.kind.startswith("row of ") or any(closed in cell.where for closed in CLOSED) or cell.kind == "words":
                continue
            caller.own = create_owned_objects(user, "ordinary")
            own, nothing = caller.own.named(cell.kind), missing_names(theirs)[cell.kind]
            answers = await within(1.0, caller.ask(cell, own)), await caller.ask(cell, nothing)
            by_address[address] = normalize(answers[0], own, nothing) != normalize(answers[1], own, nothing)
    assert [address for address, differ in by_address.items() if not differ] == []


@pytest.mark.parametrize("model", [Session, Run, Attachment, Approval, PairingRequest])
async def test_matrix_detects_unscoped_lookup(model, people, monkeypatch):
    user, theirs = people
    monkeypatch.setattr(type(model.objects.all()), "for_user", lambda self, user: self)
    async with running_gateway():
        assert await anext(found_leaks(Caller(add_permissions(user, *DUTIES)), theirs), None)


@pytest.mark.parametrize("model", [Device, Hook])
async def test_matrix_detects_lookup_without_owner_filter(model, people, monkeypatch):
    """Deliberate fault: pages for the caller's own objects show and change everyone's."""
    user, theirs = people
    rows = type(model.objects.all())
    narrow = rows.filter

    def careless(self, *args, **wanted):
        return narrow(self, *args, **{name: value for name, value in wanted.items() if self.model is not model or name != "owner"})

    monkeypatch.setattr(rows, "filter", careless)
    async with running_gateway():
        assert await anext(found_leaks(Caller(user), theirs), None)
