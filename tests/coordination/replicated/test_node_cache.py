"""A copy of the nodes at one depth: each ends at its newest value that could be read."""

import random

import pytest

from broker_ctl.coordination.directives import NodeCache
from broker_ctl.errors import CorruptRecord
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.interface import Versioned
from tests.support.clusters.sessions import parties
from tests.support.time.waiting import eventually

ROOT = "/a/root"


def decode(node: Versioned) -> str:
    if node.data == b"corrupt":
        raise CorruptRecord(f"{node.path}: nobody can read it")
    return node.data.decode()


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_nodes_of_one_depth_are_followed_and_no_others(depth: int) -> None:
    @in_virtual_time
    async def follow() -> None:
        async with parties(2) as (reader, writer):
            levels = [ROOT, f"{ROOT}/x", f"{ROOT}/x/y", f"{ROOT}/x/y/z"]
            await writer.store.create(levels[0], b"0", make_parents=True)
            nodes = NodeCache(reader.store, ROOT, decode, depth, rng=random.Random(1))
            await nodes.start()
            for number, path in enumerate(levels[1:], 1):
                await writer.store.create(path, f"{number}".encode())
            await writer.store.create(f"{ROOT}-beside", b"!")
            path = levels[depth]
            await eventually(lambda: nodes.values == {path: f"{depth}"})
            await writer.store.set(path, b"new")
            await eventually(lambda: nodes.values == {path: "new"})
            for gone in reversed(levels):
                await writer.store.delete(gone)
            await eventually(lambda: nodes.values == {})
            await nodes.close()

    follow()


@in_virtual_time
async def test_a_node_that_became_corrupt_keeps_its_last_good_value() -> None:
    async with parties(2) as (reader, writer):
        for name, data in (("a", b"1"), ("b", b"corrupt")):
            await writer.store.create(f"{ROOT}/{name}", data, make_parents=True)
        nodes = NodeCache(reader.store, ROOT, decode, 1, rng=random.Random(1))
        await nodes.start()
        await nodes.wait_synced()
        assert nodes.values == {f"{ROOT}/a": "1"}
        await writer.store.set(f"{ROOT}/a", b"corrupt")
        await eventually(lambda: nodes.corrupt == 2)
        assert nodes.values == {f"{ROOT}/a": "1"}
        await writer.store.set(f"{ROOT}/a", b"2")
        await writer.store.set(f"{ROOT}/b", b"3")
        await eventually(lambda: nodes.values == {f"{ROOT}/a": "2", f"{ROOT}/b": "3"})
        await writer.store.set(f"{ROOT}/a", b"corrupt")
        await writer.store.delete(f"{ROOT}/a")
        await eventually(lambda: nodes.values == {f"{ROOT}/b": "3"})
        await nodes.close()


@in_virtual_time
async def test_nodes_that_changed_in_an_outage_are_read_after_it() -> None:
    async with parties(2) as (reader, writer):
        await writer.store.create(f"{ROOT}/t/old", b"1", make_parents=True)
        nodes = NodeCache(reader.store, ROOT, decode, 2, rng=random.Random(1))
        await nodes.start()
        await nodes.wait_synced()
        reader.store.disconnect()
        await writer.store.delete(f"{ROOT}/t/old")
        await writer.store.create(f"{ROOT}/u/new", b"2", make_parents=True)
        reader.store.reconnect()
        await eventually(lambda: nodes.values == {f"{ROOT}/u/new": "2"})
        await nodes.close()
