"""Hearing of all that was committed until now, together with whoever else wants to.

A ``sync`` goes through the servers' leader, and a thousand bundles that are taken at once would ask
for as many. One is enough for all who asked before it was sent; whoever comes while it is on its
way needs the next, since the leader may have answered already.
"""

import asyncio

from broker_ctl.errors import StoreClosed
from broker_ctl.store.interface import MetadataStore
from broker_ctl.tasks import TaskScope


class SyncBarrier:
    """At most one ``sync`` on its way, and one that waits for it."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._tasks = TaskScope("catching up")
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None
        self._is_closed = False

    async def wait(self, path: str) -> None:
        """Until this broker's server has all that was committed when this was called.

        Raises:
            StoreError: it cannot be said.
        """
        if self._is_closed:
            raise StoreClosed("nobody catches up any more")
        if self._next is None:
            self._next = self._tasks.start(self._sync(path), "sync", is_joined=True)
        await asyncio.shield(self._next)

    async def close(self) -> None:
        """Give up what is on its way."""
        self._is_closed = True
        await self._tasks.close()

    async def _sync(self, path: str) -> None:
        async with self._turn:
            # Whoever asks from here on is not covered by this one.
            self._next = None
            await self._store.sync(path)
