"""Pauses and drains in the store, as every broker sees them."""

import random
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from broker_ctl.coordination.directives import Directives
from broker_ctl.core.cluster.directives import AuditInfo, Drain, DrainTerms, MaintenanceWindow
from broker_ctl.errors import InvalidName
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.store import paths
from tests.support.time.waiting import eventually

A, B = "a:8080", "b:8080"
ANNA, BERT = AuditInfo(1000, "anna", "kernel update"), AuditInfo(2000, "bert")
DRAIN = Drain(ANNA, 12, 5e8)


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    made = MemoryStore(MemoryEnsemble(), "writer")
    await made.start()
    await made.wait_connected()
    yield made
    await made.close()


@pytest.fixture
async def directives(store: MemoryStore) -> AsyncIterator[Directives]:
    followed = Directives(store, rng=random.Random(1))
    await followed.start()
    yield followed
    await followed.close()


async def test_the_first_pause_stands_until_it_is_taken_back(directives: Directives) -> None:
    assert directives.pause is None
    assert (await directives.begin_pause(ANNA)).order == ANNA
    assert (await directives.begin_pause(BERT)).order == ANNA
    ended = await directives.end_pause()
    assert ended is not None
    assert ended.order == ANNA
    assert directives.pause is None
    assert await directives.end_pause() is None


async def test_the_first_drain_of_a_broker_stands_until_it_is_taken_back(
    directives: Directives,
) -> None:
    assert await directives.begin_drain(A, DRAIN) == DRAIN
    assert await directives.begin_drain(A, Drain(BERT, 1, 1.0)) == DRAIN
    await directives.begin_drain(B, Drain(BERT, 1, 1.0))
    assert set(directives.drains) == {A, B}
    assert await directives.end_drain(A)
    assert not await directives.end_drain(A)
    assert set(directives.drains) == {B}
    with pytest.raises(InvalidName):
        await directives.begin_drain("../pause", DRAIN)


@pytest.mark.parametrize("data", [b"", b"nonsense", b'{"version":99,"sinceMs":1}'])
async def test_a_pause_that_does_not_decode_pauses_nevertheless(
    store: MemoryStore, directives: Directives, data: bytes
) -> None:
    await store.create(paths.PAUSE, data, make_parents=True)
    await eventually(lambda: directives.pause is not None)
    assert directives.pause is not None
    assert "does not decode" in directives.pause.order.why


async def test_a_drain_that_does_not_decode_is_reported_and_a_known_one_stays(
    store: MemoryStore, directives: Directives
) -> None:
    await directives.begin_drain(A, DRAIN)
    await store.set(paths.drain(A), b"nonsense")
    await store.create(paths.drain(B), b'{"version":99}')
    await eventually(lambda: directives.corrupt == 2)
    assert dict(directives.drains) == {A: DRAIN}


async def test_a_window_is_replaced_by_another_and_cancelled(directives: Directives) -> None:
    window = MaintenanceWindow(ANNA, DrainTerms(5_000, 9_000))
    assert await directives.schedule(A, window) == window
    assert await directives.schedule(A, replace(window, order=BERT)) == window
    other = MaintenanceWindow(BERT, DrainTerms(6_000))
    assert await directives.schedule(A, other) == other
    assert dict(directives.windows) == {A: other}
    assert directives.drains == {}
    assert await directives.unschedule(A)
    assert not await directives.unschedule(A)
    assert directives.windows == {}


async def test_a_broker_that_starts_later_knows_what_stands_and_hears_what_comes(
    directives: Directives, store: MemoryStore
) -> None:
    await directives.begin_pause(ANNA)
    await directives.begin_drain(A, DRAIN)
    other = Directives(store, rng=random.Random(1))
    await other.start()
    heard: list[int] = []
    stop = other.listen(lambda: heard.append(len(other.drains)))
    try:
        assert (other.pause is not None, set(other.drains)) == (True, {A})
        await directives.end_drain(A)
        await eventually(lambda: heard == [0])
        stop()
        await directives.end_pause()
        await eventually(lambda: other.pause is None)
        assert heard == [0]
    finally:
        await other.close()
