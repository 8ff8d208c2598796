"""The authority of a connection: valid for a minute, and rechecked immediately when the account changes."""

import asyncio
from types import SimpleNamespace

import pytest

from clawsite.gateway.auth.authority import AccountAccess, Authority, Credential, SignedOut
from clawsite.gateway.protocol import limits
from clawsite.infra.errors import Unavailable
from tests.unit.gateway_fakes import Clock

CHAT = frozenset({"operator.read", "operator.write"})
USER = SimpleNamespace(pk=1)


def standing(*scopes: str) -> AccountAccess:
    return AccountAccess(USER, frozenset(scopes), sees_all=False)


class Desk:
    """A fake credential check whose result can be set and delayed."""

    def __init__(self) -> None:
        self.says: AccountAccess | Exception | None = standing(*CHAT)
        self.looks = 0
        self.asked = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def look(self, credential: Credential) -> AccountAccess | None:
        self.looks += 1
        self.asked.set()
        answer = self.says
        await self.open.wait()
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def desk() -> Desk:
    return Desk()


def make(desk: Desk, clock: Clock, wanted: frozenset[str] | None = None) -> Authority:
    return Authority(Credential("gateway-token"), standing(*CHAT), wanted, look=desk.look, now=clock)


async def test_cached_authority_is_rechecked_after_its_interval(desk):
    clock = Clock()
    authority = make(desk, clock)
    await authority.ensure_current()
    assert desk.looks == 0
    clock.pass_(limits.RECHECK_SECONDS + 1)
    desk.says = standing("operator.read")
    await authority.ensure_current()
    assert (desk.looks, authority.scopes) == (1, frozenset({"operator.read"}))


async def test_concurrent_callers_share_one_recheck(desk):
    authority = make(desk, Clock())
    authority.doubt()
    desk.open.clear()
    waiting = [asyncio.create_task(authority.ensure_current()) for _ in range(5)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    desk.open.set()
    await asyncio.gather(*waiting)
    assert desk.looks == 1


async def test_recheck_older_than_last_change_is_ignored(desk):
    authority = make(desk, Clock())
    authority.doubt()
    desk.open.clear()
    waiting = asyncio.create_task(authority.ensure_current())
    await desk.asked.wait()
    desk.says = standing()
    authority.doubt()  # the account changed during the first check
    desk.open.set()
    await waiting
    assert authority.scopes == frozenset()


async def test_revoked_credential_stays_revoked(desk):
    authority = make(desk, Clock())
    authority.doubt()
    desk.says = None
    with pytest.raises(SignedOut):
        await authority.ensure_current()
    desk.says = standing(*CHAT)
    with pytest.raises(SignedOut):
        await authority.ensure_current()
    assert not authority.may_read


async def test_unreachable_database_denies_access(desk):
    authority = make(desk, Clock())
    authority.doubt()
    desk.says = Unavailable("The database can’t be reached.")
    with pytest.raises(Unavailable):
        await authority.ensure_current()
    desk.says = standing(*CHAT)
    assert (await authority.ensure_current()).scopes == CHAT


async def test_new_account_scopes_do_not_widen_requested_scopes(desk):
    authority = make(desk, Clock(), wanted=frozenset({"operator.read"}))
    authority.doubt()
    desk.says = standing("operator.read", "operator.write", "operator.admin")
    assert (await authority.ensure_current()).scopes == frozenset({"operator.read"})
