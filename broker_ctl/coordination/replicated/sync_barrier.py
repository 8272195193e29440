"""Shared ``sync`` calls: wait until this broker's server has all that was committed.

A ``sync`` goes through the leader of the servers, and acquiring a thousand bundles at once would
need as many. One call serves all callers that came before it was sent; callers during the call need
the next one, since the leader may have answered already.
"""

import asyncio

from broker_ctl.errors import StoreClosed
from broker_ctl.store.interface import MetadataStore
from broker_ctl.tasks import TaskScope


class SyncBarrier:
    """At most one ``sync`` in flight, and one queued."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._tasks = TaskScope("catching up")
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None
        self._is_closed = False

    async def wait(self, path: str) -> None:
        """Return once this broker's server has all that was committed before the call.

        Raises:
            StoreError: the sync failed.
        """
        if self._is_closed:
            raise StoreClosed("the sync barrier is closed")
        if self._next is None:
            self._next = self._tasks.start(self._sync(path), "sync", is_joined=True)
        await asyncio.shield(self._next)

    async def close(self) -> None:
        """Cancel the calls in progress."""
        self._is_closed = True
        await self._tasks.close()

    async def _sync(self, path: str) -> None:
        async with self._turn:
            # Callers from here on are not covered by this sync.
            self._next = None
            await self._store.sync(path)
