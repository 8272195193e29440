"""Replicas that this broker cannot serve, published to the controller (docs: kafka-failure-kinds).

Published in an ephemeral node whichever way instructions come: a log may fail at any time, and an
answer to an instruction comes only where there was one.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from broker_ctl.core.partitions.instructions import FAILED, STORAGE_ERROR, ReplicaError
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.dataplane.webhook.replicas import HeldReplica
from broker_ctl.errors import Ambiguous, NodeExists, NoNode, StoreError
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import CreateMode, MetadataStore
from broker_ctl.store.records.partitions import encode_failed

log = logging.getLogger(__name__)

_RETRY_S: Final = 0.25
# One node has all of them, and must fit: more than so many are told when these have been seen to.
_MOST: Final = 5_000
_UNSERVED: Final = frozenset({STORAGE_ERROR, FAILED})


class FailedReplicas:
    """What failed, by partition, with the reason."""

    def __init__(self, store: MetadataStore, broker_id: int) -> None:
        self._store = store
        self._path = partition_paths.failed(broker_id)
        self._reasons: dict[TopicPartition, str] = {}
        self._changed = asyncio.Event()

    @property
    def reasons(self) -> Mapping[TopicPartition, str]:
        """All that failed. It changes under whoever awaits."""
        return MappingProxyType(self._reasons)

    def record_results(
        self, partitions: Iterable[TopicPartition], errors: Collection[ReplicaError]
    ) -> None:
        """Record which of the instructed partitions the data plane failed."""
        failed = {partition: why for partition, why in errors if why in _UNSERVED}
        if self._reasons or failed:
            told = {partition: failed.get(partition) for partition in partitions}
            self._update(told)

    def reset(self, held: Iterable[HeldReplica]) -> None:
        """All that the data plane holds, which was told nothing yet."""
        self._reasons.clear()
        self.update_from_listing(held)

    def update_from_listing(self, held: Iterable[HeldReplica]) -> None:
        """All that the data plane holds. What it refused for another reason stays refused."""
        stored = {one.partition: STORAGE_ERROR for one in held if one.is_failed}
        mended = {
            partition: None
            for partition, reason in self._reasons.items()
            if reason == STORAGE_ERROR and partition not in stored
        }
        self._update({**stored, **mended})

    def _update(self, told: Mapping[TopicPartition, str | None]) -> None:
        before = len(self._reasons), self._reasons.keys() & told.keys()
        for partition, reason in told.items():
            if reason is None:
                self._reasons.pop(partition, None)
            else:
                self._reasons[partition] = reason
        if before != (len(self._reasons), self._reasons.keys() & told.keys()):
            log.warning("%d replicas cannot be served", len(self._reasons))
            self._changed.set()

    async def publish(self) -> None:
        """Write the failed replicas, retrying until the store accepts them."""
        while True:
            self._changed.clear()
            try:
                await self._write(sorted(self._reasons)[:_MOST])
            except StoreError as error:
                if not error.can_retry and not isinstance(error, (Ambiguous, NoNode, NodeExists)):
                    raise
                log.info("publishing failed replicas: %s; retrying", error)
                await asyncio.sleep(_RETRY_S)
            else:
                return

    async def keep(self) -> None:
        """Publish each change, until cancelled."""
        while True:
            await self._changed.wait()
            await self.publish()

    async def _write(self, failed: list[TopicPartition]) -> None:
        node = await self._store.get(self._path)
        if node is not None and node.stat.ephemeral_owner != self._store.session_id:
            # Of a life before, which has ended: what it says is not known of this one.
            await self._store.delete(self._path, node.stat.version)
            node = None
        data = encode_failed(failed)
        if node is None and failed:
            await self._store.create(self._path, data, CreateMode.EPHEMERAL, make_parents=True)
        elif node is not None and not failed:
            await self._store.delete(self._path, node.stat.version)
        elif node is not None and node.data != data:
            await self._store.set(self._path, data, node.stat.version)
