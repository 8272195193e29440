"""Replicas that this broker cannot serve, published to the controller (docs: kafka-failure-kinds).

They are published in an ephemeral node for every transport of instructions: a log may fail at any
time, and only an instruction has an answer that could report it.
"""

import asyncio
import logging
import random
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from broker_ctl.core.partitions.instructions import FAILED, STORAGE_ERROR, ReplicaError
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.dataplane.webhook.replicas import HeldReplica
from broker_ctl.errors import BrokerCtlError, NodeExists, NoNode
from broker_ctl.retry import is_undecided, retry
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import CreateMode, MetadataStore
from broker_ctl.store.records.partitions import encode_failed

log = logging.getLogger(__name__)

# One node lists all of them and must stay small: the controller gets the rest once these are
# handled.
_MOST: Final = 5_000
# What an instruction that was carried out has shown; None: the replica can be served.
_OUTCOMES: Final = frozenset({STORAGE_ERROR, FAILED, None})


class FailedReplicas:
    """Failed replicas of this broker by partition, with the reason."""

    def __init__(self, store: MetadataStore, broker_id: int, *, rng: random.Random) -> None:
        self._store = store
        self._path = partition_paths.failed(broker_id)
        self._reasons: dict[TopicPartition, str] = {}
        self._changed = asyncio.Event()
        self._rng = rng

    @property
    def reasons(self) -> Mapping[TopicPartition, str]:
        """A live view of all failed replicas; it may change during any await."""
        return MappingProxyType(self._reasons)

    def record_results(
        self, partitions: Iterable[TopicPartition], errors: Collection[ReplicaError]
    ) -> None:
        """Record which of the instructed partitions the data plane failed."""
        if self._reasons or errors:
            reasons = dict(errors)
            # Any other reason: the instruction was not carried out, and says nothing of the log.
            self._update(
                {each: why for each in partitions if (why := reasons.get(each)) in _OUTCOMES}
            )

    def reset(self, held: Iterable[HeldReplica]) -> None:
        """Start with the replicas that the data plane holds, before any of them is instructed."""
        self._reasons.clear()
        self.update_from_listing(held)

    def update_from_listing(self, held: Iterable[HeldReplica]) -> None:
        """Update storage failures from a listing of all held replicas; other failures stay."""
        stored = {one.partition: STORAGE_ERROR for one in held if one.is_failed}
        mended = {
            partition: None
            for partition, reason in self._reasons.items()
            if reason == STORAGE_ERROR and partition not in stored
        }
        self._update({**stored, **mended})

    def _update(self, reported: Mapping[TopicPartition, str | None]) -> None:
        before = len(self._reasons), self._reasons.keys() & reported.keys()
        for partition, reason in reported.items():
            if reason is None:
                self._reasons.pop(partition, None)
            else:
                self._reasons[partition] = reason
        if before != (len(self._reasons), self._reasons.keys() & reported.keys()):
            log.warning("%d replicas cannot be served: reporting them", len(self._reasons))
            self._changed.set()

    async def publish(self) -> None:
        """Write the failed replicas, retrying until the store accepts them."""
        await retry(
            self._write, "cannot publish the failed replicas", rng=self._rng, judge=_may_pass
        )

    async def keep(self) -> None:
        """Publish each change until cancelled."""
        while True:
            await self._changed.wait()
            await self.publish()

    async def _write(self) -> None:
        self._changed.clear()
        failed = sorted(self._reasons)[:_MOST]
        node = await self._store.get(self._path)
        if node is not None and node.stat.ephemeral_owner != self._store.session_id:
            # The node is of an ended session: it says nothing about this registration.
            await self._store.delete(self._path, node.stat.version)
            node = None
        data = encode_failed(failed)
        if node is None and failed:
            await self._store.create(self._path, data, CreateMode.EPHEMERAL, make_parents=True)
        elif node is not None and not failed:
            await self._store.delete(self._path, node.stat.version)
        elif node is not None and node.data != data:
            await self._store.set(self._path, data, node.stat.version)


def _may_pass(error: BrokerCtlError) -> bool:
    """Each attempt reads first: a node that came or went meanwhile is seen by the next one."""
    return is_undecided(error) or isinstance(error, NoNode | NodeExists)
