"""How long operations wait for the batch that takes them, each one measured."""

from collections import defaultdict, deque
from collections.abc import Sequence

from broker_ctl.store.interface import Answer, Check, Operation, Outcome, Read
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.benchmarks.store.pacing import now_s


class Waits:
    """From the call of an operation until its batch is handed to the client, in seconds.

    Measured around the store, whichever it is, rather than read from its metric: that has buckets
    in place of values. On a path, what was asked for first leaves first, which distinguishes
    callers that read the same node.
    """

    def __init__(self) -> None:
        self._asked_s: dict[str, deque[float]] = defaultdict(deque)
        self.waited_s: list[float] = []

    def asked(self, path: str) -> None:
        """An operation was called."""
        self._asked_s[path].append(now_s())

    def left(self, path: str) -> None:
        """It is on its way; once more, where it is sent again, counts nothing."""
        if asked_s := self._asked_s.get(path):
            self.waited_s.append(now_s() - asked_s.popleft())
            if not asked_s:
                del self._asked_s[path]

    @property
    def unsent(self) -> int:
        """Operations whose batch was never seen."""
        return sum(map(len, self._asked_s.values()))


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
