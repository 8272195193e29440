"""ZKQueue at its end: the instructions that wait for this broker.

Docs: kafka-zkqueue, kafka-design-v3. Watched before it is read; the names once for each look, the
nodes together, then one after the other in the order of their numbers. The deletion is the
acknowledgement: it comes after applying, so a broker that dies in between applies again, which
changes nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from broker_ctl.codec import decode_object
from broker_ctl.core.partitions.instructions import Instruction
from broker_ctl.errors import (
    Ambiguous,
    AuthorityLost,
    CorruptRecord,
    DataPlaneError,
    Fenced,
    MultiFailed,
    NewerVersion,
    NodeExists,
    NoNode,
    StoreError,
)
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import Change, Delete, MetadataStore, Notification, Versioned
from broker_ctl.store.watching import set_watch

log = logging.getLogger(__name__)

_RETRY_S: Final = 0.25
# Read and applied in one go; an instruction may have half a megabyte.
_AT_ONCE: Final = 16

Handle = Callable[[Instruction], Awaitable[object]]


class ZkQueue:
    """Takes what comes, until cancelled.

    Attributes:
        applied: instructions that were carried out.
        corrupt: nodes that are no instructions; those that come too late `handle` counts.
    """

    def __init__(self, store: MetadataStore, broker_id: int, handle: Handle) -> None:
        self._store = store
        self._path = partition_paths.queue(broker_id)
        self._handle = handle
        self._wake = asyncio.Event()
        self._unread: set[str] = set()
        self.applied = 0
        self.corrupt = 0

    async def watch(self) -> Callable[[], None]:
        """Begin to hear of instructions; returns what stops it."""
        stop_watching = await set_watch(self._store, self._path, self._changed)
        stop_listening = self._store.listen(lambda _: self._wake.set())

        def stop() -> None:
            stop_listening()
            stop_watching()

        return stop

    def _changed(self, notification: Notification) -> None:
        # Its own acknowledgements are no news.
        if notification.change is not Change.DELETED:
            self._wake.set()

    async def run(self) -> None:
        """Apply what is there and what comes; `watch` before."""
        await self._make()
        self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._drain()
            except (StoreError, DataPlaneError, AuthorityLost) as error:
                if isinstance(error, StoreError) and not _may_pass(error):
                    raise
                # What was not applied is not acknowledged: the controller sees that it takes long.
                log.warning("instructions are not applied yet: %s; retrying", error)
                await asyncio.sleep(_RETRY_S)
                self._wake.set()

    async def _make(self) -> None:
        """The parent, so that the controller need not ask for it before each instruction."""
        while True:
            try:
                await self._store.create(self._path, make_parents=True)
            except NodeExists:
                return
            except StoreError as error:
                if not _may_pass(error):
                    raise
                log.info("creating %s: %s; retrying", self._path, error)
                await asyncio.sleep(_RETRY_S)
            else:
                return

    async def _drain(self) -> None:
        # As numbers of one width, names sort in the order in which they were given.
        names = await self._store.children(self._path)
        self._unread &= set(names)
        waiting = [f"{self._path}/{name}" for name in names if name not in self._unread]
        for begin in range(0, len(waiting), _AT_ONCE):
            nodes = await self._store.get_many(waiting[begin : begin + _AT_ONCE])
            # Meanwhile the controller may have replaced all of them by one.
            await self._apply_all([node for node in nodes if node is not None])

    async def _apply_all(self, nodes: list[Versioned]) -> None:
        done: list[Versioned] = []
        try:
            for node in nodes:
                if await self._apply(node):
                    done.append(node)  # noqa: PERF401  # what was done counts where a later one fails
        except (StoreError, DataPlaneError, AuthorityLost):
            await self._acknowledge(done)
            raise
        await self._acknowledge(done)

    async def _apply(self, node: Versioned) -> bool:
        """Whether it is done with."""
        try:
            await self._handle(Instruction.parse(decode_object(node.data)))
        except Fenced as error:
            log.info("%s: %s", node.path, error)
        except NewerVersion as error:
            # Left there: a broker that cannot understand must not say that it obeyed.
            self._unread.add(node.path.rpartition("/")[2])
            log.warning("%s: %s", node.path, error)
            return False
        except CorruptRecord as error:
            self.corrupt += 1
            log.warning("%s: %s", node.path, error)
        else:
            self.applied += 1
        return True

    async def _acknowledge(self, nodes: list[Versioned]) -> None:
        """Delete in order; in one transaction unless somebody else has deleted among them."""
        if not nodes:
            return
        deletions = [Delete(node.path) for node in nodes]
        try:
            await self._store.multi(deletions)
        except MultiFailed:
            for node in nodes:
                try:
                    await self._store.delete(node.path)
                except NoNode:
                    continue


def _may_pass(error: StoreError) -> bool:
    return error.can_retry or isinstance(error, Ambiguous)
