"""Nodes that must go and did not yet: the seed's deletion queue.

A delete that failed for want of a connection is tried again until it is done or moot, but only
against the very node it was meant for: entries carry the czxid (I8).
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from broker_ctl.errors import BadVersion, NoNode, StoreError
from broker_ctl.store.interface import MetadataStore
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_MAX_ENTRIES: Final = 10_000
_RETRY_S: Final = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """Which node is meant, and since when it has waited."""

    czxid: int
    queued_s: float


class Deletions:
    """A bounded queue; the oldest entry is given up when it overflows, and counted."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._empty = asyncio.Event()
        self._empty.set()
        self._wake = asyncio.Event()
        self._tasks = TaskScope("deletions")
        self.given_up = 0

    def start(self) -> None:
        """Begin to work the queue off."""
        self._tasks.start(self._work_off(), "work off")

    async def close(self) -> None:
        """Stop; what is left ends with the session."""
        await self._tasks.close()

    async def drain(self) -> None:
        """Return once all of it is done or moot; the caller gives the deadline."""
        await self._empty.wait()

    @property
    def age_s(self) -> float:
        """How long the oldest entry has waited; 0 where none does."""
        queued_s = min((entry.queued_s for entry in self._entries.values()), default=None)
        return 0.0 if queued_s is None else asyncio.get_running_loop().time() - queued_s

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, path: str, czxid: int) -> None:
        """The node that was created at ``czxid`` must go; until it is gone, nobody may adopt it."""
        self._entries[path] = _Entry(czxid, asyncio.get_running_loop().time())
        self._entries.move_to_end(path)
        self._empty.clear()
        if len(self._entries) > _MAX_ENTRIES:
            dropped, _ = self._entries.popitem(last=False)
            self.given_up += 1
            log.error("too many deletions wait: gave up on %s", dropped)
        self._wake.set()

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    async def _work_off(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for path, entry in list(self._entries.items()):
                try:
                    await self._delete(path, entry.czxid)
                except StoreError as error:
                    log.info("deleting %s: %s; trying again", path, error)
                    # The others go first: what is wrong may be with this one alone.
                    if path in self._entries:
                        self._entries.move_to_end(path)
                    self._wake.set()
                    break
                # While it was deleted a newer node may have been queued on the same path.
                if self._entries.get(path) is entry:
                    del self._entries[path]
            if not self._entries:
                self._empty.set()
            if self._wake.is_set():
                await asyncio.sleep(_RETRY_S)

    async def _delete(self, path: str, czxid: int) -> None:
        """Raises nothing where it is gone, or another node stands there."""
        while (stat := await self._store.exists(path)) is not None and stat.czxid == czxid:
            # Read and deleted back to back: a successor's node may carry the same version.
            with contextlib.suppress(NoNode, BadVersion):
                await self._store.delete(path, stat.version)
