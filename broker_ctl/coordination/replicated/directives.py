"""Standing directives of operators (pause, drains, maintenance windows), as brokers see them.

They are nodes, so that they survive leader changes and restarts. Each broker caches them: the
leader honours them, and a broker that places without a leader skips drained brokers.
"""

import logging
import random
from collections.abc import Callable, Mapping
from typing import TypeVar

from broker_ctl.coordination.replicated.node_cache import NodeCache
from broker_ctl.core.cluster.directives import AuditInfo, Drain, MaintenanceWindow, Pause
from broker_ctl.errors import CorruptRecord, NewerVersion, NodeExists, NoNode
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.directives import DrainRecord, PauseRecord, WindowRecord

log = logging.getLogger(__name__)

T = TypeVar("T")


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
