"""A store that something happens to at a chosen moment."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from broker_ctl.controller.controller import BuildAdmin
from broker_ctl.errors import Ambiguous
from broker_ctl.store.forwarding import ForwardingStore
from broker_ctl.store.interface import MetadataStore, Operation, Result, Versioned
from tests.support.clusters.partition_cluster import NoProcedures, PartitionCluster, Running


class TryingStore(ForwardingStore):
    """Hands everything on; ``before`` and ``after`` are called around each transaction.

    Attributes:
        transactions: those that were sent, the guard first.
        reads: paths that were read together.
        listed: paths whose children were listed.
    """

    def __init__(self, store: MetadataStore) -> None:
        super().__init__(store)
        self.transactions: list[Sequence[Operation]] = []
        self.reads: list[str] = []
        self.listed: list[str] = []
        self.before: Callable[[Sequence[Operation]], Awaitable[None]] | None = None
        self.after: Callable[[Sequence[Operation]], Awaitable[None]] | None = None

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        if self.before is not None:
            await self.before(operations)
        self.transactions.append(operations)
        results = await self._inner.multi(operations)
        if self.after is not None:
            await self.after(operations)
        return results

    async def children(self, path: str) -> list[str]:
        self.listed.append(path)
        return await self._inner.children(path)

    async def get_many(self, paths: Sequence[str]) -> list[Versioned | None]:
        self.reads += paths
        return await self._inner.get_many(paths)


class Gate:
    """Holds up every transaction after the first ``free`` ones."""

    def __init__(self, free: int) -> None:
        self.left = free
        self.held = 0
        self.opened = asyncio.Event()

    async def __call__(self, _: Sequence[Operation]) -> None:
        self.left -= 1
        if self.left < 0:
            self.held += 1
            await self.opened.wait()


async def lose_reply(_: Sequence[Operation]) -> None:
    """Fail after the transaction was committed, with an outcome that the caller cannot know."""
    raise Ambiguous("the reply was lost, and the nodes do not show the outcome")


async def led_through(
    cluster: PartitionCluster,
    store: type[TryingStore] = TryingStore,
    build_admin: BuildAdmin = NoProcedures,
) -> tuple[Running, TryingStore]:
    """A controller whose store can be interfered with."""
    trying: list[TryingStore] = []

    def wrap(inner: MetadataStore) -> MetadataStore:
        trying.append(store(inner))
        return trying[-1]

    running = await cluster.lead(build_admin, wrap)
    return running, trying[0]
