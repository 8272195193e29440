"""Servers that pair commits with requests by session and xid, as real ones do."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from broker_ctl.errors import BadVersion
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.store.interface import CreateMode, Versioned
from broker_ctl.store.zookeeper.connection import Xids
from broker_ctl.tasks import TaskScope
from tests.support.time.waiting import eventually


class Rig:
    def __init__(self) -> None:
        self.ensemble = MemoryEnsemble()
        self.store, self.other = MemoryStore(self.ensemble), MemoryStore(self.ensemble)
        self.tasks = TaskScope("writes")

    async def lose(self, path: str, *, is_given_up: bool = False) -> "asyncio.Task[Versioned]":
        """A create of the store that is proposed when its connection ends."""
        proposed = len(self.ensemble.proposals._proposed)
        create = self.tasks.start(self.store.create(path), path, is_joined=True)
        await eventually(lambda: len(self.ensemble.proposals._proposed) > proposed)
        if is_given_up:
            create.cancel()
        self.store.disconnect()
        self.store.reconnect()
        await self.store.wait_connected()
        return create


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    async with rig.tasks:
        for store in (rig.store, rig.other):
            await store.start()
            await store.wait_connected()
        yield rig
        rig.ensemble.proposals.release()
    await rig.store.close()
    await rig.other.close()


async def test_what_is_proposed_is_committed_in_its_order_once_it_is_acknowledged(rig: Rig) -> None:
    await rig.store.create("/a")
    rig.ensemble.proposals.hold()
    first = rig.tasks.start(rig.store.set("/a", b"1", 0), "first", is_joined=True)
    second = rig.tasks.start(rig.other.set("/a", b"2", 0), "second", is_joined=True)
    await eventually(lambda: len(rig.ensemble.proposals._proposed) == 2)
    node = rig.ensemble.tree.find("/a")
    assert node is not None
    assert node.data == b""
    rig.ensemble.proposals.release()
    assert (await first).version == 1
    with pytest.raises(BadVersion):
        await second


async def test_a_lost_write_is_resolved_behind_its_commit(rig: Rig) -> None:
    rig.ensemble.proposals.hold()
    lost = await rig.lose("/a")
    rig.ensemble.proposals.release()
    made = await lost
    assert made.path == "/a"
    # Once, and not again after the reconnect.
    assert rig.ensemble.tree.zxid == made.stat.czxid


async def test_an_end_that_is_proposed_twice_ends_the_session_once(rig: Rig) -> None:
    ensemble, session_id = rig.ensemble, rig.other.session_id
    await rig.other.create("/mine", mode=CreateMode.EPHEMERAL)
    ensemble.proposals.hold()
    for number in (1, 2):
        end = ensemble.proposals.propose(session_id, number, partial(ensemble.end, session_id))
        rig.tasks.start(end, f"end {number}", is_joined=True)
    await eventually(lambda: len(ensemble.proposals._proposed) == 2)
    ensemble.proposals.release_one()
    assert ensemble.tree.find("/mine") is None
    assert not ensemble.proposals.are_outstanding


async def given_up_and_later(rig: Rig) -> Versioned:
    """What a create is answered behind one that was given up with its connection."""
    rig.ensemble.proposals.hold()
    await rig.lose("/a", is_given_up=True)
    later = rig.tasks.start(rig.store.create("/b"), "later", is_joined=True)
    await eventually(lambda: len(rig.ensemble.proposals._proposed) == 2)
    rig.ensemble.proposals.release()
    return await later


async def test_a_write_that_was_given_up_answers_no_other_one(rig: Rig) -> None:
    assert (await given_up_and_later(rig)).path == "/b"


async def test_with_numbers_that_begin_again_on_each_connection_it_does(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above shows what the numbers are for."""
    monkeypatch.setattr(Xids, "next", lambda _: 1)
    assert (await given_up_and_later(rig)).path == "/a"
