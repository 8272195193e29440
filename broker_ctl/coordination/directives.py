"""Standing directives of operators (pause, drains, maintenance windows), and moves in flight."""

import logging
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from broker_ctl.coordination.children_cache import PathChildrenCache
from broker_ctl.core.cluster.directives import AuditInfo, Drain, MaintenanceWindow, Pause
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import (
    BadVersion,
    CorruptRecord,
    MultiFailed,
    NewerVersion,
    NodeExists,
    NoNode,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import (
    Check,
    Create,
    Delete,
    MetadataStore,
    Notification,
    Operation,
    SetData,
    Versioned,
)
from broker_ctl.store.path_rules import is_at_or_below
from broker_ctl.store.records.broker_ctl import MoveNode
from broker_ctl.store.records.directives import DrainRecord, PauseRecord, WindowRecord

log = logging.getLogger(__name__)

# A full copy of the nodes at one depth, keeping the last good value of each.
#
# For what operators set: a corrupt payload must not replace the last good value.


T = TypeVar("T")

# A value may be None.
_ABSENT: Final = object()


class NodeCache(PathChildrenCache[T]):
    """Values of the nodes ``depth`` steps below ``root`` by path; 0 is the root itself.

    Unlike in a `PathChildrenCache`, a node that no longer decodes keeps its last value; one that
    never did is left out. Both are logged and counted.
    """

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        decode: Callable[[Versioned], T],
        depth: int = 0,
        *,
        rng: random.Random,
    ) -> None:
        super().__init__(store, root, decode, rng=rng)
        self._depth = depth

    def _changed(self, notification: Notification) -> None:
        path = notification.path
        if is_at_or_below(self._root, path) and self._depth_of(path) == self._depth:
            self._mark(path)

    def _depth_of(self, path: str) -> int:
        return path.count("/") - self._root.count("/")

    async def _paths(self) -> list[str]:
        paths = [self._root]
        for _ in range(self._depth):
            below = [(path, await self._store.children(path)) for path in paths]
            paths = [f"{path}/{name}" for path, names in below for name in names]
        return paths

    async def _read(self, names: list[str] | None) -> Collection[str]:
        gone: set[str] = set()
        if names is None:
            names = await self._paths()
            gone = self._values.keys() - set(names)
        nodes = await self._store.get_many(names)
        for path in gone:
            del self._values[path]
        changed = [path for path, node in zip(names, nodes, strict=True) if self._take(path, node)]
        return [*sorted(gone), *changed]

    def _take(self, name: str, node: Versioned | None) -> bool:
        before: object = self._values.get(name, _ABSENT)
        if node is None:
            self._values.pop(name, None)
            return before is not _ABSENT
        try:
            self._values[name] = self._decode(node)
        except (CorruptRecord, NewerVersion) as error:
            self.corrupt += 1
            kept = "its last good value stays" if name in self._values else "left out"
            log.warning("%s; %s", error, kept)
            return False
        return self._values[name] != before


# Standing directives of operators (pause, drains, maintenance windows), as brokers see them.
#
# They are nodes, so that they survive leader changes and restarts. Each broker caches them: the
# leader honours them, and a broker that places without a leader skips drained brokers.


def _decode_pause(node: Versioned) -> Pause:
    """Decode a pause; an unreadable node pauses too, since doing nothing is safer."""
    try:
        return PauseRecord.decode(node.path, node.data).pause
    except (CorruptRecord, NewerVersion) as error:
        log.warning("balancing is paused, although the pause does not decode: %s", error)
        return Pause(AuditInfo.of(node.stat.mtime_ms, "", f"the node does not decode: {error}"))


def _decode_drain(node: Versioned) -> Drain:
    return DrainRecord.decode(node.path, node.data).drain


def _decode_window(node: Versioned) -> MaintenanceWindow:
    return WindowRecord.decode(node.path, node.data).window


class Directives:
    """A full copy of the nodes; also writes them."""

    def __init__(self, store: MetadataStore, *, rng: random.Random) -> None:
        self._store = store
        self._pauses = NodeCache(store, paths.PAUSE, _decode_pause, rng=rng)
        self._drains = NodeCache(store, paths.DRAINS, _decode_drain, depth=1, rng=rng)
        self._windows = NodeCache(store, paths.MAINTENANCE, _decode_window, depth=1, rng=rng)
        self._followed = (self._pauses, self._drains, self._windows)

    async def start(self) -> None:
        """Start the caches; returns once they have been read."""
        for followed in self._followed:
            await followed.start()
            await followed.wait_synced()

    async def close(self) -> None:
        """Stop the caches; the last known values stay."""
        for followed in self._followed:
            await followed.close()

    @property
    def corrupt(self) -> int:
        """Number of drains and maintenance windows that did not decode."""
        return self._drains.corrupt + self._windows.corrupt

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` when a directive changes; returns a function that stops it."""
        stops = [followed.listen(listener) for followed in self._followed]

        def stop() -> None:
            for each in stops:
                each()

        return stop

    # Pause.

    @property
    def pause(self) -> Pause | None:
        """The current pause; None if balancing is not paused."""
        return self._pauses.values.get(paths.PAUSE)

    async def begin_pause(self, order: AuditInfo) -> Pause:
        """Pause balancing; an existing pause of an operator stays unchanged.

        Raises:
            StoreError: the pause was not written.
        """
        wanted = Pause(order)
        data = PauseRecord(wanted).encode()
        try:
            await self._store.create(paths.PAUSE, data, make_parents=True)
            log.info("the balancing is paused%s", order.suffix)
        except NodeExists:
            # One that ends by itself, or with a rollout, is the operator's from now on.
            node = await self._store.get(paths.PAUSE)
            if node is not None and not _decode_pause(node).is_operators:
                await self._store.set(paths.PAUSE, data, node.stat.version)
                log.info("the pause of the balancing stays%s", order.suffix)
        await self._pauses.wait_synced()
        return self.pause or wanted

    async def end_pause(self) -> Pause | None:
        """End the pause; returns it, or None if there was none.

        Raises:
            StoreError: the pause was not deleted.
        """
        ended = self.pause
        try:
            await self._store.delete(paths.PAUSE)
            log.info("the pause of the balancing has ended")
        except NoNode:
            ended = None
        await self._pauses.wait_synced()
        return ended

    # Drains.

    @property
    def drains(self) -> Mapping[str, Drain]:
        """Drains by broker id."""
        return _by_broker(paths.DRAINS, self._drains.values)

    async def begin_drain(self, broker_id: str, drain: Drain) -> Drain:
        """Drain a broker; an existing drain stays unchanged.

        Raises:
            InvalidName: the text is not a broker id.
            StoreError: the drain was not written.
        """
        path, data = paths.drain(broker_id), DrainRecord(drain).encode()
        try:
            await self._store.create(path, data, make_parents=True)
            log.info("%s is drained%s", broker_id, drain.order.suffix)
        except NodeExists:
            # One that ends with a rollout is the operator's from now on.
            node = await self._store.get(path)
            if node is not None and _decode_drain(node).rollout_id:
                await self._store.set(path, data, node.stat.version)
                log.info("%s stays drained%s", broker_id, drain.order.suffix)
        await self._drains.wait_synced()
        return self.drains.get(broker_id, drain)

    async def end_drain(self, broker_id: str) -> bool:
        """End a drain; returns whether the broker was drained.

        Raises:
            InvalidName: the text is not a broker id.
            StoreError: the drain was not deleted.
        """
        is_ended = True
        try:
            await self._store.delete(paths.drain(broker_id))
            log.info("%s is not drained any more", broker_id)
        except NoNode:
            is_ended = False
        await self._drains.wait_synced()
        return is_ended

    # Maintenance windows.

    @property
    def windows(self) -> Mapping[str, MaintenanceWindow]:
        """Drains that begin later, by broker id."""
        return _by_broker(paths.MAINTENANCE, self._windows.values)

    async def schedule(self, broker_id: str, window: MaintenanceWindow) -> MaintenanceWindow:
        """Schedule a drain, in place of an earlier one; the same window again changes nothing.

        Raises:
            InvalidName: the text is not a broker id.
            StoreError: the window was not written.
        """
        path, known = paths.maintenance_window(broker_id), self.windows.get(broker_id)
        if known is not None and known.terms == window.terms:
            return known
        data = WindowRecord(window).encode()
        try:
            await self._store.create(path, data, make_parents=True)
        except NodeExists:
            await self._store.set(path, data)
        log.info("a drain of %s is scheduled%s", broker_id, window.order.suffix)
        await self._windows.wait_synced()
        return self.windows.get(broker_id, window)

    async def unschedule(self, broker_id: str) -> bool:
        """Cancel a scheduled drain; returns whether there was one.

        Raises:
            InvalidName: the text is not a broker id.
            StoreError: the window was not deleted.
        """
        is_cancelled = True
        try:
            await self._store.delete(paths.maintenance_window(broker_id))
            log.info("the scheduled drain of %s is cancelled", broker_id)
        except NoNode:
            is_cancelled = False
        await self._windows.wait_synced()
        return is_cancelled

    async def wait_synced(self) -> None:
        """Return once the caches contain what was written before the call."""
        for followed in self._followed:
            await followed.wait_synced()


def _by_broker(parent: str, values: Mapping[str, T]) -> dict[str, T]:
    return {
        broker_id: value
        for path, value in values.items()
        if (broker_id := paths.name_below(parent, path)) is not None
    }


# Moves in flight: records that the leader writes, and that every broker reads.
#
# The record is the reservation of a bundle: created under the leader's epoch, read by every
# lookup, deleted by the receiver once it serves. Each write invalidates earlier commands of the
# move (docs: move).


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
        self._tree = PathChildrenCache(store, paths.MOVES, _decode, rng=rng)

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
    def version(self) -> int:
        """Grows with each change of a record."""
        return self._tree.version

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
