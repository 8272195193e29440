"""The transactions that a failover needs, and nothing else.

A client without watches writes as many states in transactions of the controller's size, as many at
once, each with a check as the controller's has. Nothing is read, decided, or sent to a broker.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from broker_ctl.controller.state.batch_writer import CHUNK
from broker_ctl.controller.store.loader import pipelined
from broker_ctl.core.model.counting import batched
from broker_ctl.core.partitions.values import LeaderAndIsr, TopicPartition
from broker_ctl.store import paths
from broker_ctl.store.interface import Check, SetData
from broker_ctl.store.records.partitions import encode_state
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.benchmarks.failover.layout import Layout, lay_states, lay_topics
from tests.benchmarks.store.tree import direct_store

_CHECKED: Final = "/epoch"


class RawTransactions:
    """Transactions on states of their own, laid before.

    Attributes:
        seconds: of each run.
    """

    def __init__(self, store: ZooKeeperStore, layout: Layout) -> None:
        self._store = store
        self._layout = layout
        self.seconds: list[float] = []

    async def run(self) -> None:
        """Write all states once."""
        began_s = time.perf_counter()
        await pipelined(batched(self._layout.states(), CHUNK), self._write, "raw transactions")
        self.seconds.append(time.perf_counter() - began_s)

    async def _write(self, chunk: list[tuple[TopicPartition, LeaderAndIsr]]) -> None:
        writes = [SetData(paths.leader_and_isr(of), encode_state(state)) for of, state in chunk]
        await self._store.multi([Check(_CHECKED, 0), *writes])


@asynccontextmanager
async def raw_transactions(
    hosts: str, chroot: str, layout: Layout
) -> AsyncIterator[RawTransactions]:
    """Below a chroot of their own, which exists."""
    async with direct_store(hosts, chroot) as store:
        await store.create(_CHECKED)
        await lay_topics(store, layout)
        await lay_states(store, layout)
        yield RawTransactions(store, layout)
