"""Nodes with which operators request reassignments: read, validated and deleted.

A request is `/brokers/partitions_reassigned/T/P`. It is deleted with the final assignment, or at
once if it is not valid, which is logged (docs: kafka-paths, kafka-reassignment; KAFKA-9478: a
request that stays behind must not hide later ones).
"""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from broker_ctl.controller.procedures.parents import make_parents
from broker_ctl.controller.state.batch_writer import CHUNK
from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.controller.store.pipelining import READS, pipelined, read_nodes
from broker_ctl.core.model.batches import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.reassigning import fault_of_target
from broker_ctl.errors import CorruptRecord, MultiFailed, StoreError
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import (
    Create,
    Delete,
    MetadataStore,
    Operation,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.records.partitions import decode_request, encode_request

log = logging.getLogger(__name__)


class Request(NamedTuple):
    """A request; ``version`` is that of its node."""

    target: tuple[int, ...]
    version: int


class ReassignmentRequests:
    """Pending requests as of the last read."""

    def __init__(self, store: MetadataStore, context: Context, state_changer: StateChanger) -> None:
        self._store = store
        self._context = context
        self._state_changer = state_changer
        self.pending: dict[TopicPartition, Request] = {}

    async def read(self) -> None:
        """Read all requests; invalid ones are deleted, as are parents of past ones."""
        self.pending = {}
        topics = await self._store.children(partition_paths.REASSIGNED)
        parents, empty = await self._parents([f"{partition_paths.REASSIGNED}/{t}" for t in topics])
        paths: list[str] = []

        async def list_below(parent: str) -> None:
            numbers = await self._store.children(parent)
            paths.extend(f"{parent}/{number}" for number in numbers)
            if not numbers and _is_past(await self._store.exists(parent)):
                empty.append(parent)

        await pipelined(parents, list_below, "topics of requests")

        async def read(batch: list[str]) -> None:
            for path, node in zip(batch, await read_nodes(self._store, batch), strict=True):
                await self._add(path, node)

        await pipelined(batched(paths, READS), read, "requests")
        await pipelined(batched(empty, CHUNK), self._remove_parents, "parents of requests")

    async def _parents(self, paths: Sequence[str]) -> tuple[list[str], list[str]]:
        """Parents that may have requests, and those whose requests are gone.

        They are read many at a time, and only the former are listed.
        """
        used: list[str] = []
        empty: list[str] = []

        async def look(batch: list[str]) -> None:
            for path, node in zip(batch, await read_nodes(self._store, batch), strict=True):
                if not isinstance(node, Versioned) or node.stat.children_count:
                    used.append(path)
                elif _is_past(node.stat):
                    empty.append(path)

        await pipelined(batched(paths, READS), look, "parents of requests")
        return used, empty

    async def _remove_parents(self, paths: Sequence[str]) -> None:
        """Delete parents without requests, all of them or, if one has changed, one by one."""
        if await self._remove([Delete(path) for path in paths]) or len(paths) == 1:
            return
        for path in paths:
            await self._remove([Delete(path)])

    async def _add(self, path: str, node: Versioned | StoreError | None) -> None:
        if node is None:
            return
        partition = partition_paths.partition_of_request(path)
        if isinstance(node, StoreError) or partition is None:
            log.warning("ignored %s: it is not a readable request", path)
            return
        try:
            request = Request(decode_request(node), node.stat.version)
        except CorruptRecord as error:
            await self._refuse(path, node.stat.version, str(error))
            return
        assignment = self._context.assignments.get(partition)
        if assignment is None:
            # The topic may be new, with its own event still queued, or about to be deleted.
            if await self._is_unknown(partition):
                await self._refuse(path, request.version, f"there is no partition {partition}")
            return
        min_isr = self._context.rules_of(partition.topic).min_isr
        fault = fault_of_target(request.target, assignment, self._context.brokers, min_isr)
        if fault is not None:
            await self._refuse(path, request.version, f"it {fault}")
            return
        self.pending[partition] = request

    async def _is_unknown(self, partition: TopicPartition) -> bool:
        if partition.topic in self._context.topics:
            return True
        return await self._store.exists(partition_paths.topic(partition.topic)) is None

    async def _refuse(self, path: str, version: int, why: str) -> None:
        log.warning("the request %s is refused and deleted: %s", path, why)
        await self._remove([Delete(path, version)])

    async def _remove(self, operations: Sequence[Operation]) -> bool:
        try:
            await self._state_changer.write(operations)
        except MultiFailed as error:
            # The node is gone, replaced or not empty: the next read will show it.
            log.debug("cannot delete a request: %s; reading requests again", error)
            return False
        return True

    # New requests.

    async def put(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        """Write requests, each replacing a pending one.

        Raises:
            MultiFailed: another client writes them too; some may have been written.
        """
        await self.read()
        for topic in sorted({partition.topic for partition in targets}):
            parent = f"{partition_paths.reassigned_topic(topic)}/0"
            await make_parents(self._store, self._state_changer, parent)
        for batch in batched(sorted(targets), CHUNK):
            await self._state_changer.write([self._put(each, targets[each]) for each in batch])
        await self.read()

    def _put(self, partition: TopicPartition, target: tuple[int, ...]) -> Operation:
        path, data = partition_paths.reassigned(partition), encode_request(target)
        pending = self.pending.get(partition)
        if pending is None:
            return Create(path, data)
        return SetData(path, data, pending.version)


def _is_past(stat: Stat | None) -> bool:
    """Whether an empty parent had requests: any other was just created for the next one."""
    return stat is not None and stat.cversion > 0
