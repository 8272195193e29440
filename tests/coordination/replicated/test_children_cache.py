"""A copy of a node's children ends at the newest state, whatever was missed."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

import pytest

from broker_ctl.coordination.children_cache import PathChildrenCache
from broker_ctl.errors import ConnectionLoss, CorruptRecord, NewerVersion, StoreError
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.interface import CreateMode, Versioned
from tests.support.clusters.sessions import Party, parties
from tests.support.time.waiting import eventually

ROOT = "/root"


def decode(node: Versioned) -> str:
    if node.data == b"corrupt":
        raise CorruptRecord(node.path)
    if node.data == b"newer":
        raise NewerVersion(node.path)
    return node.data.decode()


def as_it_stands(party: Party) -> dict[str, str]:
    tree, found = party.ensemble.tree, {}
    for name in tree.children(ROOT):
        node = tree.find(f"{ROOT}/{name}")
        assert node is not None
        if node.data not in {b"corrupt", b"newer"}:
            found[name] = node.data.decode()
    return found


@in_virtual_time
async def test_children_values_and_their_ends_are_followed() -> None:
    async with parties(2) as (reader, writer):
        tree = PathChildrenCache(reader.store, ROOT, decode, rng=random.Random(1))
        await tree.start()
        await tree.wait_synced()
        assert tree.values == {}
        versions = [tree.version]
        await writer.store.create(f"{ROOT}/a", b"1", make_parents=True)
        await eventually(lambda: tree.values == {"a": "1"})
        versions.append(tree.version)
        await writer.store.set(f"{ROOT}/a", b"2")
        await eventually(lambda: tree.values == {"a": "2"})
        versions.append(tree.version)
        # What lies deeper is not ours.
        await writer.store.create(f"{ROOT}/a/below", b"3")
        await writer.store.delete(f"{ROOT}/a/below")
        await writer.store.delete(f"{ROOT}/a")
        await eventually(lambda: tree.values == {})
        versions.append(tree.version)
        assert versions == sorted(set(versions))
        await tree.close()


@in_virtual_time
async def test_a_node_that_does_not_decode_is_left_out_counted_and_hides_no_other() -> None:
    async with parties(2) as (reader, writer):
        for name, data in (("a", b"corrupt"), ("b", b"newer"), ("c", b"fine")):
            await writer.store.create(f"{ROOT}/{name}", data, make_parents=True)
        tree = PathChildrenCache(reader.store, ROOT, decode, rng=random.Random(1))
        await tree.start()
        await tree.wait_synced()
        assert tree.values == {"c": "fine"}
        assert tree.corrupt == 2
        await writer.store.set(f"{ROOT}/a", b"mended")
        await eventually(lambda: tree.values == {"a": "mended", "c": "fine"})
        await tree.close()


@in_virtual_time
async def test_listeners_hear_of_changes_only() -> None:
    async with parties(2) as (reader, writer):
        tree = PathChildrenCache(reader.store, ROOT, decode, rng=random.Random(1))
        heard: list[dict[str, str]] = []
        tree.listen(lambda: heard.append(dict(tree.values)))
        await tree.start()
        await writer.store.create(f"{ROOT}/a", b"1", make_parents=True)
        await eventually(lambda: heard == [{"a": "1"}])
        await writer.store.set(f"{ROOT}/a", b"1")
        reader.blink()
        await asyncio.sleep(1.0)
        await tree.wait_synced()
        assert heard == [{"a": "1"}]
        await tree.close()


@in_virtual_time
async def test_changes_during_an_outage_are_read_after_it() -> None:
    async with parties(2) as (reader, writer):
        await writer.store.create(f"{ROOT}/a", b"1", make_parents=True)
        await writer.store.create(f"{ROOT}/b", b"1")
        tree = PathChildrenCache(reader.store, ROOT, decode, rng=random.Random(1))
        await tree.start()
        await tree.wait_synced()
        version = tree.version
        reader.store.disconnect()
        await writer.store.delete(f"{ROOT}/a")
        await writer.store.set(f"{ROOT}/b", b"2")
        await writer.store.create(f"{ROOT}/c", b"1")
        await asyncio.sleep(5.0)
        assert tree.values == {"a": "1", "b": "1"}, "old, and better than nothing"
        assert tree.version == version
        reader.store.reconnect()
        await eventually(lambda: tree.values == {"b": "2", "c": "1"})
        assert tree.version == version + 3
        await tree.close()


@pytest.mark.parametrize("seed", range(10))
@in_virtual_time
async def test_the_copy_converges_whatever_happens(seed: int) -> None:
    async with parties(2) as (reader, writer):
        rng = reader.rng
        rng.seed(seed)
        await writer.store.create(ROOT)
        tree = PathChildrenCache(reader.store, ROOT, decode, rng=random.Random(1))
        await tree.start()
        for _ in range(150):
            path = f"{ROOT}/{rng.choice('abcde')}"
            data = rng.choice([b"1", b"2", b"3", b"corrupt", b"newer"])
            mode = rng.choice([CreateMode.PERSISTENT, CreateMode.EPHEMERAL])
            match rng.randrange(10):
                case 0:
                    reader.blink()
                case 1:
                    reader.store.disconnect()
                    delay_s = rng.choice([0.1, 1.0, 12.0])
                    asyncio.get_running_loop().call_later(delay_s, reader.store.reconnect)
                case 2:
                    writer.expire()
                case 3 | 4:
                    await attempt(writer.store.delete(path))
                case 5 | 6:
                    await attempt(writer.store.set(path, data))
                case _:
                    await attempt(writer.store.create(path, data, mode))
            await asyncio.sleep(rng.choice([0.0, 0.001, 0.01, 0.5]))
        reader.store.reconnect()
        await eventually(lambda: tree.values == as_it_stands(reader), deadline_s=30.0)
        await tree.wait_synced()
        assert tree.values == as_it_stands(reader)
        await tree.close()


async def attempt(work: Awaitable[object]) -> None:
    try:
        await work
    except StoreError:
        return


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A value that counts how often one of its kind was compared."""

    data: bytes
    counts: Counter[str]

    def __eq__(self, other: object) -> bool:
        self.counts["compared"] += 1
        return isinstance(other, Compared) and self.data == other.data

    __hash__ = None  # type: ignore[assignment]


@in_virtual_time
async def test_a_change_of_one_child_costs_nothing_for_the_others() -> None:
    counts: Counter[str] = Counter()
    async with parties(2) as (reader, writer):
        for number in range(50):
            await writer.store.create(f"{ROOT}/{number}", b"1", make_parents=True)
        tree = PathChildrenCache(
            reader.store, ROOT, lambda node: Compared(node.data, counts), rng=random.Random(1)
        )
        changes: list[int] = []
        await tree.start()
        await tree.wait_synced()
        tree.listen(lambda: changes.append(len(tree.values)))
        counts.clear()
        await writer.store.set(f"{ROOT}/7", b"2")
        await eventually(lambda: changes == [50])
        assert counts["compared"] == 1
        await writer.store.delete(f"{ROOT}/7")
        await eventually(lambda: changes == [50, 49])
        await tree.close()


@in_virtual_time
async def test_children_that_went_during_an_outage_are_gone_and_notified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with parties(2) as (reader, writer):
        read, failures = reader.store.get_many, [ConnectionLoss("in the middle of a read")]

        async def fail_once(paths: Sequence[str]) -> list[Versioned | None]:
            if failures:
                raise failures.pop()
            return await read(paths)

        for name in "ab":
            await writer.store.create(f"{ROOT}/{name}", b"1", make_parents=True)
        tree = PathChildrenCache(reader.store, ROOT, decode, rng=random.Random(1))
        changes: list[tuple[list[str], dict[str, str]]] = []
        await tree.start()
        await tree.wait_synced()
        tree.listen_to_names(lambda names: changes.append(([*names], dict(tree.values))))
        reader.store.disconnect()
        monkeypatch.setattr(reader.store, "get_many", fail_once)
        await writer.store.delete(f"{ROOT}/a")
        reader.store.reconnect()
        await eventually(lambda: changes == [(["a"], {"b": "1"})])
        assert not failures
        await tree.close()
