"""Persistent writes are repeated in the next session; writes of unknown outcome are not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from broker_ctl.errors import Ambiguous, SessionExpired, StoreError
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.instrumented import RetryingStore
from broker_ctl.store.interface import ANY_VERSION, Create, CreateMode, MetadataStore, SetData
from broker_ctl.tasks import TaskScope

Write = Callable[[MetadataStore], Coroutine[None, None, object]]

WRITES: dict[str, Write] = {
    "create": lambda store: store.create("/new"),
    "set": lambda store: store.set("/a", b"2", 0),
    "delete": lambda store: store.delete("/b", 0),
    "multi": lambda store: store.multi([SetData("/a", b"2", 0), Create("/new")]),
}


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[MemoryEnsemble, MemoryStore]]:
    ensemble = MemoryEnsemble()
    store = MemoryStore(ensemble, session_timeout_s=4.0)
    await store.start()
    await store.wait_connected()
    await store.create("/a", b"1")
    await store.create("/b")
    yield ensemble, store
    await store.close()


@pytest.mark.parametrize("kind", WRITES)
@in_virtual_time
async def test_a_write_that_was_not_sent_is_done_once_in_the_next_session(kind: str) -> None:
    async with opened() as (ensemble, store), TaskScope("test") as tasks:
        first = store.session_id
        store.disconnect()
        plain = tasks.start(WRITES[kind](store), "plain", is_joined=True)
        lasting = tasks.start(WRITES[kind](RetryingStore(store)), "lasting")
        await asyncio.sleep(1.0)
        ensemble.expire(first)
        store.reconnect()
        await lasting
        assert store.session_id != first
        with pytest.raises(SessionExpired):
            await plain
        a = await store.get("/a")
        assert a is not None
        is_set, is_made = kind in {"set", "multi"}, kind in {"create", "multi"}
        assert (a.data, a.stat.version) == ((b"2", 1) if is_set else (b"1", 0))
        assert (await store.exists("/new") is not None) is is_made
        assert (await store.exists("/b") is None) is (kind == "delete")


class Refusing(MemoryStore):
    """Fails each deletion with the same error."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(MemoryEnsemble())
        self.error = error
        self.asked: list[tuple[str, int]] = []

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self.asked.append((path, version))
        raise self.error


@pytest.mark.parametrize(("error", "times"), [(Ambiguous("lost"), 1), (SessionExpired("gone"), 3)])
@in_virtual_time
async def test_a_write_of_unknown_outcome_is_not_repeated_and_a_failed_one_not_for_ever(
    error: StoreError, times: int
) -> None:
    store = Refusing(error)
    with pytest.raises(type(error)):
        await RetryingStore(store).delete("/a")
    assert store.asked == [("/a", ANY_VERSION)] * times


@in_virtual_time
async def test_an_ephemeral_node_is_refused_since_it_is_its_session_s() -> None:
    async with opened() as (_, store):
        with pytest.raises(ValueError, match="does not outlast"):
            await RetryingStore(store).create("/e", mode=CreateMode.EPHEMERAL)
        with pytest.raises(ValueError, match="does not outlast"):
            await RetryingStore(store).multi([Create("/e", b"", CreateMode.EPHEMERAL)])
