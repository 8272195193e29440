"""The receiving side of the ZooKeeper transport: reads and applies this broker's instructions.

Docs: kafka-zkqueue, kafka-design-v3. The watch is set before the first read. Each round lists the
names, reads the nodes together, and applies them in the order of their numbers. Deleting a node
acknowledges it, after it was applied: a broker that dies in between applies it again, which changes
nothing.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from broker_ctl.codec import decode_object
from broker_ctl.core.partitions.instructions import Instruction
from broker_ctl.errors import (
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
from broker_ctl.retry import is_undecided, retry
from broker_ctl.store import paths
from broker_ctl.store.forwarding import set_watch
from broker_ctl.store.interface import Change, Delete, MetadataStore, Notification, Versioned

log = logging.getLogger(__name__)

# Instructions read and applied in one round; one instruction may have half a megabyte.
_AT_ONCE: Final = 16

Handle = Callable[[Instruction], Awaitable[object]]


class ZkQueue:
    """Applies instructions until cancelled.

    Attributes:
        applied: number of instructions executed.
        corrupt: number of nodes that do not decode as instructions; `handle` counts stale ones.
    """

    def __init__(
        self, store: MetadataStore, broker_id: int, handle: Handle, *, rng: random.Random
    ) -> None:
        self._store = store
        self._rng = rng
        self._path = paths.queue(broker_id)
        self._handle = handle
        self._wake = asyncio.Event()
        self._unread: set[str] = set()
        self.applied = 0
        self.corrupt = 0

    async def watch(self) -> Callable[[], None]:
        """Watch the queue; returns a function that ends the watch."""
        stop_watching = await set_watch(self._store, self._path, self._changed, rng=self._rng)
        stop_listening = self._store.listen(lambda _: self._wake.set())

        def stop() -> None:
            stop_listening()
            stop_watching()

        return stop

    def _changed(self, notification: Notification) -> None:
        # Deletions are this broker's own acknowledgements.
        if notification.change is not Change.DELETED:
            self._wake.set()

    async def run(self) -> None:
        """Apply pending and new instructions; call `watch` first."""
        await self._make()
        self._wake.set()
        while True:
            await self._wake.wait()
            # An instruction that was not applied stays unacknowledged: the controller sees the
            # delay.
            await retry(
                self._drain,
                "cannot apply instructions yet",
                rng=self._rng,
                judge=lambda error: (
                    is_undecided(error) or isinstance(error, DataPlaneError | AuthorityLost)
                ),
                level=logging.WARNING,
            )

    async def _make(self) -> None:
        """Create the parent, so that the controller need not check it before each instruction."""

        async def make() -> None:
            with contextlib.suppress(NodeExists):
                await self._store.create(self._path, make_parents=True)

        await retry(make, f"cannot create {self._path}", rng=self._rng, judge=is_undecided)

    async def _drain(self) -> None:
        self._wake.clear()
        # The numbers have one width, so that names sort in the order of creation.
        names = await self._store.children(self._path)
        self._unread &= set(names)
        waiting = [f"{self._path}/{name}" for name in names if name not in self._unread]
        for begin in range(0, len(waiting), _AT_ONCE):
            nodes = await self._store.get_many(waiting[begin : begin + _AT_ONCE])
            # The controller may have replaced them by a single one since they were listed.
            await self._apply_all([node for node in nodes if node is not None])

    async def _apply_all(self, nodes: list[Versioned]) -> None:
        done: list[Versioned] = []
        try:
            for node in nodes:
                if await self._apply(node):
                    done.append(node)  # noqa: PERF401  # kept if a later one fails
        except (StoreError, DataPlaneError, AuthorityLost):
            await self._acknowledge(done)
            raise
        await self._acknowledge(done)

    async def _apply(self, node: Versioned) -> bool:
        """Apply one node; returns whether it may be acknowledged."""
        try:
            await self._handle(Instruction.parse(decode_object(node.data)))
        except Fenced as error:
            log.info("%s is stale and not executed: %s", node.path, error)
        except NewerVersion as error:
            # Not acknowledged: the broker cannot claim to have executed what it cannot decode.
            self._unread.add(node.path.rpartition("/")[2])
            log.warning("%s needs a newer release and stays in the queue: %s", node.path, error)
            return False
        except CorruptRecord as error:
            self.corrupt += 1
            log.warning("%s is corrupt and dropped: %s", node.path, error)
        else:
            self.applied += 1
        return True

    async def _acknowledge(self, nodes: list[Versioned]) -> None:
        """Delete the nodes in order: in one transaction, or singly if some are gone already."""
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
