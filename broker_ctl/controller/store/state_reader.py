"""Reads states of partitions into the context, many at a time."""

import logging
from collections.abc import Collection

from broker_ctl.controller.store.pipelining import READS, Found, pipelined, read_nodes
from broker_ctl.core.model.batches import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.errors import Fenced, StoreError
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.partitions import decode_state

log = logging.getLogger(__name__)


class StateReader:
    """Reads and decodes states; a node that cannot be read is skipped and counted."""

    def __init__(
        self, store: MetadataStore, context: Context, instruments: ControllerInstruments
    ) -> None:
        self._store = store
        self._context = context
        self._instruments = instruments

    async def refresh(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Read states again; returns the partitions whose state differed from the context.

        Raises:
            Fenced: a newer controller has written one of them.
            StoreError: the store cannot be reached.
        """
        changed: list[TopicPartition] = []

        async def read(batch: list[TopicPartition]) -> None:
            paths = [partition_paths.leader_and_isr(partition) for partition in batch]
            nodes = await read_nodes(self._store, paths)
            for partition, path, node in zip(batch, paths, nodes, strict=True):
                if self._take(partition, path, node):
                    changed.append(partition)

        await pipelined(batched(partitions, READS), read, "states")
        return changed

    def _take(self, partition: TopicPartition, path: str, node: Found) -> bool:
        """Put one node into the context; returns whether it differed."""
        context = self._context
        before = context.states.get(partition)
        context.unreadable.discard(path)
        if node is None:
            context.drop_state(partition)
            return before is not None
        try:
            if isinstance(node, StoreError):
                raise node
            state = decode_state(node)
        except StoreError as error:
            # The known state is outdated, and the new one is unreadable.
            log.warning("skipped the state of %s: %s", partition, error)
            self._instruments.corrupt_nodes.add("state")
            context.unreadable.add(path)
            context.drop_state(partition)
            return before is not None
        if state.controller_epoch > context.epoch:
            raise Fenced(f"{partition} was written at epoch {state.controller_epoch}")
        if state == before:
            return False
        context.put_state(partition, state)
        return True
