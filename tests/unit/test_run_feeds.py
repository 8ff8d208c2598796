"""Following a run over a bus that loses, duplicates and reorders messages: every event once and in order."""

import asyncio
import random

import pytest

from clawsite.gateway.delivery import run_feed
from clawsite.gateway.delivery.run_feed import RunFeeds

COUNT = 40


def event(seq):
    data = {"phase": "end"} if seq == COUNT else {"phase": "x", "n": seq}
    return {"run": 7, "seq": seq, "stream": "lifecycle", "data": data}


@pytest.fixture
def rows(monkeypatch):
    """The number of committed events."""
    committed = {"seq": 1}

    async def read(fn, run, *args):
        if fn is run_feed._read_heads:
            return [(7, committed["seq"])]
        return [event(seq) for seq in range(args[0] + 1, committed["seq"] + 1)][:5]  # a page has five rows

    monkeypatch.setattr(run_feed.db, "read", read)
    return committed


@pytest.mark.parametrize("seed", range(20))
async def test_every_event_is_delivered_once_in_order(rows, seed):
    chance = random.Random(seed)
    feeds, told = RunFeeds(), []

    async def follow():
        async for one in feeds.follow(7, after=1):
            told.append(one["seq"])

    following = asyncio.create_task(follow())
    await asyncio.sleep(0)
    late = []
    for seq in range(2, COUNT + 1):
        rows["seq"] = seq
        fate = chance.choice(["heard", "lost", "doubled", "late", "empty"])
        heard = {"heard": [event(seq)], "doubled": [event(seq)] * 2, "empty": [{**event(seq), "data": None}]}.get(fate, [])
        late += [event(seq)] if fate == "late" else []
        feeds.handle_events(heard)
        if chance.random() < 0.3:
            feeds.handle_events(late)
            late = []
        if chance.random() < 0.4:
            await asyncio.sleep(0)
    while not following.done():
        await feeds.poll()
        await asyncio.sleep(0)
    assert told == list(range(2, COUNT + 1))


async def test_late_subscriber_gets_all_events(rows):
    rows["seq"] = COUNT
    assert [one["seq"] async for one in RunFeeds().follow(7)] == list(range(1, COUNT + 1))


async def test_events_that_arrived_before_the_follower_need_no_poll(rows):
    """The run can end between its commit and the registration of the response that follows it."""
    feeds = RunFeeds()
    rows["seq"] = COUNT
    feeds.handle_events([event(seq) for seq in range(2, COUNT + 1)])
    following = asyncio.create_task(_collect(feeds.follow(7, after=1)))
    for _turn in range(COUNT):
        await asyncio.sleep(0)
    assert following.done(), "it waits for the poll"
    assert await following == list(range(2, COUNT + 1))


async def test_only_recent_runs_are_remembered(rows, monkeypatch):
    monkeypatch.setattr(run_feed, "MAX_HEADS", 3)
    feeds = RunFeeds()
    for run in range(10):
        feeds.handle_events([{**event(2), "run": run}])
    assert list(feeds._heads) == [7, 8, 9]


async def _collect(events):
    return [one["seq"] async for one in events]
