"""Revalidation: reads the nodes of locks in doubt again.

One task reads in batches: the end of a session deletes thousands of nodes with a notification for
each, and single reads would keep the servers from all other requests.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from broker_ctl.coordination.locks.lock import Lock
from broker_ctl.core.machines.lock import State
from broker_ctl.errors import BrokerCtlError, StoreError
from broker_ctl.retry import retry
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_BATCH: Final = 128
_WINDOW_S: Final = 0.3


class RevalidationQueue:
    """Locks in doubt, oldest doubt first.

    ``judge`` receives each lock with its node; ``on_verified`` the seconds since the oldest doubt
    of a batch.
    """

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        rng: random.Random,
        *,
        judge: Callable[[Lock, Versioned | None], None],
        on_verified: Callable[[float], None] | None,
    ) -> None:
        self._store = store
        self._root = root
        self._rng = rng
        self._judge = judge
        self._on_verified = on_verified
        self._since_s: dict[Lock, float] = {}
        self._is_verifying = False
        self._tasks = TaskScope(f"locks below {root}")

    def add(self, locks: Sequence[Lock]) -> None:
        """Queue their nodes for reading, even during a read: its answer may be older."""
        if not locks:
            return
        now_s = asyncio.get_running_loop().time()
        for lock in locks:
            self._since_s.setdefault(lock, now_s)
        if not self._is_verifying:
            self._is_verifying = True
            self._tasks.keep(self._verify(), "verify")

    async def close(self) -> None:
        """Stop reading."""
        self._since_s.clear()
        await self._tasks.close()

    async def _verify(self) -> None:
        try:
            if len(self._since_s) > _BATCH:
                # A delay, because many brokers reconnect at once.
                await asyncio.sleep(self._rng.uniform(0, _WINDOW_S))
            while self._since_s:
                batch = list(islice(self._since_s, _BATCH))
                since_s = min(self._since_s.pop(lock) for lock in batch)
                await self._verify_batch(batch, since_s)
        finally:
            self._is_verifying = False

    async def _verify_batch(self, batch: list[Lock], since_s: float) -> None:
        """Read until the store answers or all locks of the batch have ended.

        Locks that are held again are read too: that state may rest on an older answer.
        """

        async def verify() -> None:
            doubtful = [lock for lock in batch if not lock.has_ended]
            if not doubtful:
                return
            await self._store.sync(self._root)
            nodes = await self._store.get_many([lock.path for lock in doubtful])
            for lock, node in zip(doubtful, nodes, strict=True):
                self._judge(lock, node)
            if self._on_verified is not None:
                self._on_verified(asyncio.get_running_loop().time() - since_s)

        def is_needed(error: BrokerCtlError) -> bool:
            """The next reconnect verifies those that a lost connection has made suspect."""
            left = (lock for lock in batch if not lock.has_ended)
            return isinstance(error, StoreError) and any(
                lock.state is not State.SUSPECT for lock in left
            )

        try:
            await retry(verify, f"cannot verify {len(batch)} locks", rng=self._rng, judge=is_needed)
        except StoreError as error:
            log.info("cannot verify %d locks: %s; the reconnect does", len(batch), error)
