"""Nodes of topics are read together, but no more bytes than a reply may have."""

import random
from collections.abc import Sequence

from broker_ctl.controller.store.loader import Loader, TopicIds
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.values import Assignment, ControllerRules, TopicAssignment
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths as partition_paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.partitions import encode_topic
from tests.support.clusters.partition_cluster import partition_cluster
from tests.support.zookeeper.faulty_store import TryingStore

_MOST_BYTES = 512 * 1024


class _Sized(TryingStore):
    """Keeps the number and the bytes of the nodes of each read."""

    def __init__(self, store: MetadataStore) -> None:
        super().__init__(store)
        self.sizes: list[tuple[int, int]] = []

    async def get_many(self, paths: Sequence[str]) -> list[Versioned | None]:
        nodes = await super().get_many(paths)
        size_bytes = sum(len(node.data) for node in nodes if node is not None)
        self.sizes.append((len(paths), size_bytes))
        return nodes


async def _reads(topics: int, partitions: int) -> list[tuple[int, int]]:
    """Number and bytes of the nodes that are read at a time, to read all of these topics."""
    names = [f"t-{number:03d}" for number in range(topics)]
    rows = {number: Assignment((1, 2, 3)) for number in range(partitions)}
    async with partition_cluster(1) as cluster:
        for number, name in enumerate(names):
            data = encode_topic(TopicAssignment(f"{number:032x}", rows))
            await cluster.operator.create(partition_paths.topic(name), data, make_parents=True)
        store, context = _Sized(cluster.operator), Context(1)
        instruments, rng = ControllerInstruments(), random.Random(1)
        # Without a write no term is needed: all topics have an id.
        ids = TopicIds(store, context, None, rng)  # type: ignore[arg-type]
        loader = Loader(store, context, ControllerRules, instruments, ids)
        found = await loader.topics(names)
        assert {name: len(topic.partitions) for name, topic in found.items() if topic} == (
            dict.fromkeys(names, partitions)
        )
        return store.sizes


@in_virtual_time
async def test_small_topics_are_read_in_few_requests() -> None:
    assert [count for count, _ in await _reads(200, 1)] == [4, 128, 68]


@in_virtual_time
async def test_no_request_asks_for_more_bytes_of_large_topics_than_a_reply_has() -> None:
    sizes = await _reads(16, 4000)
    assert sum(size_bytes for _, size_bytes in sizes) > _MOST_BYTES
    assert max(size_bytes for _, size_bytes in sizes) < _MOST_BYTES
