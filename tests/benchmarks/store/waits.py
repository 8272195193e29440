"""How long operations wait for the batch that takes them, each one measured."""

from collections import defaultdict, deque
from collections.abc import Sequence

from broker_ctl.store.interface import (
    ANY_VERSION,
    REQUEST_CLASS,
    Answer,
    Check,
    CreateMode,
    Operation,
    Outcome,
    Read,
    RequestClass,
    Stat,
    Versioned,
)
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.benchmarks.store.pacing import now_s


class Waits:
    """From the call of an operation until its batch is handed to the client, in seconds.

    Measured around the store, whichever it is, rather than read from its metric: that has buckets
    in place of values. On a path, what was asked for first leaves first, which distinguishes
    callers that read the same node.
    """

    def __init__(self) -> None:
        self._asked: dict[str, deque[tuple[float, RequestClass]]] = defaultdict(deque)
        self.waited_s: dict[RequestClass, list[float]] = {each: [] for each in RequestClass}

    def asked(self, path: str) -> None:
        """An operation was called."""
        self._asked[path].append((now_s(), REQUEST_CLASS.get()))

    def left(self, path: str) -> None:
        """It is on its way; once more, where it is sent again, counts nothing."""
        if asked := self._asked.get(path):
            asked_s, request_class = asked.popleft()
            self.waited_s[request_class].append(now_s() - asked_s)
            if not asked:
                del self._asked[path]

    @property
    def of_urgent_s(self) -> list[float]:
        """The waits of all that is not bulk."""
        bulk = RequestClass.BULK
        return [wait for each, waits in self.waited_s.items() if each is not bulk for wait in waits]

    @property
    def unsent(self) -> int:
        """Operations whose batch was never seen."""
        return sum(map(len, self._asked.values()))


class WatchedStore(ZooKeeperStore):
    """Our client; it notes when each batch reaches it."""

    def __init__(self, hosts: str, waits: Waits, max_frame_bytes: int) -> None:
        super().__init__(StoreOptions(hosts, max_frame_bytes=max_frame_bytes))
        self._waits = waits

    async def read_many(self, reads: Sequence[Read], deadline_s: float) -> list[Answer]:
        """See `BulkStore.read_many`."""
        for read in reads:
            self._waits.left(read.path)
        return await super().read_many(reads, deadline_s)

    async def write_many(
        self, operations: Sequence[Operation], deadline_s: float
    ) -> tuple[Outcome, ...]:
        """See `BulkStore.write_many`."""
        for operation in operations:
            if not isinstance(operation, Check):
                self._waits.left(operation.path)
        return await super().write_many(operations, deadline_s)

    # Operations that leave without a batch.

    async def get(self, path: str) -> Versioned | None:
        """See `MetadataStore.get`."""
        self._waits.left(path)
        return await super().get(path)

    async def children(self, path: str) -> list[str]:
        """See `MetadataStore.children`."""
        self._waits.left(path)
        return await super().children(path)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore.set`."""
        self._waits.left(path)
        return await super().set(path, data, version)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        mode: CreateMode = CreateMode.PERSISTENT,
        *,
        ttl_ms: int = 0,
        make_parents: bool = False,
        acl: bytes = b"",
    ) -> Versioned:
        """See `MetadataStore.create`."""
        self._waits.left(path)
        return await super().create(
            path, data, mode, ttl_ms=ttl_ms, make_parents=make_parents, acl=acl
        )
