"""Moves in flight: records that the leader writes, and that every broker reads.

The record is the reservation of a bundle: created under the leader's epoch, read by every lookup,
deleted by the receiver once it serves. Each write invalidates earlier commands of the move (docs:
move).
"""

import random
from dataclasses import dataclass, replace

from broker_ctl.coordination.replicated.tree_cache import TreeCache
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.errors import BadVersion, MultiFailed, NodeExists, NoNode
from broker_ctl.store import paths
from broker_ctl.store.interface import (
    Check,
    Create,
    Delete,
    MetadataStore,
    Operation,
    SetData,
    Versioned,
)
from broker_ctl.store.records.broker_ctl import MoveNode


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """A move, and the data version of its node."""

    move: MoveNode
    version: int

    @property
    def guard(self) -> Operation:
        """A check that fails once a leader has written the record again, or the move has ended."""
        return Check(paths.move(self.move.move_id), self.version)


def _decode(node: Versioned) -> MoveRecord:
    return MoveRecord(MoveNode.decode(node.path, node.data), node.stat.version)


class Moves:
    """A full copy of the records; there is one per move in flight."""

    def __init__(self, store: MetadataStore, *, rng: random.Random) -> None:
        self._store = store
        self._tree = TreeCache(store, paths.MOVES, _decode, rng=rng)

    async def start(self) -> None:
        """Start the cache and its watch."""
        await self._tree.start()

    async def close(self) -> None:
        """Stop the cache and its watch."""
        await self._tree.close()

    async def wait_synced(self) -> None:
        """Return once all notified changes have been read."""
        await self._tree.wait_synced()

    @property
    def corrupt(self) -> int:
        """Number of records that did not decode."""
        return self._tree.corrupt

    @property
    def all(self) -> list[MoveRecord]:
        """All moves, as of the newest read."""
        return list(self._tree.values.values())

    def of(self, bundle: Bundle) -> MoveRecord | None:
        """The move of a bundle, or of one that overlaps it."""
        for record in self._tree.values.values():
            if record.move.bundle.overlaps(bundle):
                return record
        return None

    async def read(self, move_id: str) -> MoveRecord | None:
        """Read one record from the store; it is at least as new as the copy."""
        node = await self._store.get(paths.move(move_id))
        return None if node is None else _decode(node)

    async def read_since(self, move_id: str, version: int) -> MoveRecord | None:
        """Read the record at ``version`` or later."""
        record = await self.read(move_id)
        if record is None or record.version < version:
            # The server of this broker may lag behind the leader's.
            await self._store.sync(paths.move(move_id))
            record = await self.read(move_id)
        return record

    async def begin(self, move: MoveNode, guard: Operation) -> MoveRecord:
        """Create the record, which reserves the bundle.

        Raises:
            MultiFailed: the epoch is stale, or the id exists already.
        """
        path = paths.move(move.move_id)
        while True:
            try:
                await self._store.multi([guard, Create(path, move.encode())])
            except MultiFailed as error:
                if not isinstance(error.cause, NoNode) or error.index == 0:
                    raise
                try:
                    await self._store.create(paths.MOVES, make_parents=True)
                except NodeExists:
                    continue
            else:
                return MoveRecord(move, 0)

    async def adopt(self, record: MoveRecord, epoch: int, guard: Operation) -> MoveRecord:
        """Write the record under a new leader's epoch, which invalidates the old leader's commands.

        If a lost answer cannot be resolved because the record was written again or deleted, a
        marker node (I4) would not help: the current record counts, and `read` returns it.

        Raises:
            MultiFailed: the epoch is stale, or the move has ended meanwhile.
        """
        move = replace(record.move, epoch=epoch)
        path = paths.move(move.move_id)
        await self._store.multi([guard, SetData(path, move.encode(), record.version)])
        return MoveRecord(move, record.version + 1)

    async def end(self, record: MoveRecord, guard: Operation | None = None) -> bool:
        """Delete the record; False if it was written again or deleted meanwhile."""
        guards = () if guard is None else (guard,)
        delete = Delete(paths.move(record.move.move_id), record.version)
        try:
            await self._store.multi([*guards, delete])
        except MultiFailed as error:
            if isinstance(error.cause, NoNode | BadVersion) and error.index == len(guards):
                return False
            raise
        return True
