"""Standing directives of operators (the pause and drains), as every broker sees them.

They are nodes, so that they survive leader changes and restarts. Each broker caches them: the
leader honours them, and a broker that places without a leader skips drained brokers.
"""

import logging
import random
from collections.abc import Callable, Mapping
from contextlib import suppress

from broker_ctl.coordination.replicated.node_cache import NodeCache
from broker_ctl.core.cluster.directives import AuditInfo, Drain, Pause
from broker_ctl.errors import CorruptRecord, NewerVersion, NodeExists, NoNode
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.directives import DrainRecord, PauseRecord

log = logging.getLogger(__name__)


def _decode_pause(node: Versioned) -> Pause:
    """Decode a pause; an unreadable node pauses too, since doing nothing is safer."""
    try:
        return PauseRecord.decode(node.path, node.data).pause
    except (CorruptRecord, NewerVersion) as error:
        log.warning("balancing is paused, although the pause does not decode: %s", error)
        return Pause(AuditInfo.of(node.stat.mtime_ms, "", f"the node does not decode: {error}"))


def _decode_drain(node: Versioned) -> Drain:
    return DrainRecord.decode(node.path, node.data).drain


class Directives:
    """A full copy of the nodes; also writes them."""

    def __init__(self, store: MetadataStore, *, rng: random.Random) -> None:
        self._store = store
        self._pauses = NodeCache(store, paths.PAUSE, _decode_pause, rng=rng)
        self._drains = NodeCache(store, paths.DRAINS, _decode_drain, depth=1, rng=rng)

    async def start(self) -> None:
        """Start the caches; returns once they have been read."""
        for followed in (self._pauses, self._drains):
            await followed.start()
            await followed.wait_synced()

    async def close(self) -> None:
        """Stop the caches; the last known values stay."""
        await self._pauses.close()
        await self._drains.close()

    @property
    def corrupt(self) -> int:
        """Number of drains that did not decode."""
        return self._drains.corrupt

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` when a directive changes; returns a function that stops it."""
        stops = [self._pauses.listen(listener), self._drains.listen(listener)]

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
        """Pause balancing; an existing pause stays unchanged.

        Raises:
            StoreError: the pause was not written.
        """
        # An existing pause is not replaced.
        with suppress(NodeExists):
            data = PauseRecord(Pause(order)).encode()
            await self._store.create(paths.PAUSE, data, make_parents=True)
            log.info("the balancing is paused%s", order.suffix)
        await self._pauses.wait_synced()
        return self.pause or Pause(order)

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
        return {
            broker_id: drain
            for path, drain in self._drains.values.items()
            if (broker_id := paths.name_below(paths.DRAINS, path)) is not None
        }

    async def begin_drain(self, broker_id: str, drain: Drain) -> Drain:
        """Drain a broker; an existing drain stays unchanged.

        Raises:
            InvalidName: the text is not a broker id.
            StoreError: the drain was not written.
        """
        with suppress(NodeExists):
            data = DrainRecord(drain).encode()
            await self._store.create(paths.drain(broker_id), data, make_parents=True)
            log.info("%s is drained%s", broker_id, drain.order.suffix)
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
