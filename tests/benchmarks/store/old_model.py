"""Pulsar's metadata store as it was before PIP-453, to be measured beside ours.

What it does (docs: pip-453, pulsar-batching):

- Two queues, reads and writes, and one thread for everything: completions, the timer of the flush,
  JSON, notifications and their listeners. The event loop is that thread here. Whatever talks to the
  store goes through the queues, heartbeats of locks and leases too: there is no lane past them.
- A flush comes every 5 ms at a fixed rate; what a stall made it miss is made up for, back to
  back. Otherwise only a queue with more operations than fit in a batch is flushed, by the call
  that filled it.
- A flush drains both queues, in batches of up to 1,000 operations or 128 KB of request, however
  many others are on their way. Replies have no bound but the client's jute.maxbuffer, which
  Pulsar's start scripts set to 10 MiB, and the measurement does likewise. (The limit on
  replies that came in September 2025 takes every get of unknown size for 64 KB, and so cuts batches
  to eight gets; the model is spared that.)
- All callers of a batch get their answers in the turn in which the reply comes; none waits so that
  others may have a turn.
- A write batch that is refused is sent again one by one.
- One watch on the root reports every change in the tree, also those that the broker made itself.
  Each is passed to all listeners of the store, which look whether it is theirs: a dozen caches and
  services. The cache that has the node decoded reads it again, and decodes it again.

Kinder than the original: a lost connection is dealt with by our client below, and its thread of
input and output, which in Java is another one, costs little here; it also reads notifications a
bounded number at a time.
"""

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from broker_ctl.codec import decode_object
from broker_ctl.errors import MultiFailed, StoreError
from broker_ctl.store.interface import (
    ANY_VERSION,
    Aspect,
    BulkStore,
    Create,
    Notification,
    Operation,
    Read,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.path_rules import ROOT
from broker_ctl.tasks import TaskScope

PERIOD_S: Final = 0.005
MOST_OPERATIONS: Final = 1000
MOST_BYTES: Final = 128 * 1024
MAX_FRAME_BYTES: Final = 10 << 20
_LIMIT_S: Final = 30.0

_OBJECT: Final = b"{"
# What Pulsar's other caches and services listen for.
_OTHERS: Final = (
    "/admin/clusters",
    "/admin/policies",
    "/admin/local-policies",
    "/admin/partitioned-topics",
    "/admin/configuration",
    "/admin/resourcegroups",
    "/loadbalance/brokers",
    "/loadbalance/bundle-data",
    "/loadbalance/leader",
    "/loadbalance/resource-quota",
    "/namespace",
    "/schemas",
)

R = TypeVar("R", Read, SetData | Create)


class _Asked(Generic[R]):
    """An operation and its caller."""

    __slots__ = ("future", "request", "size_bytes")

    request: R

    def __init__(self, request: R, size_bytes: int) -> None:
        self.request = request
        self.size_bytes = size_bytes
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class OldStore:
    """Gets, children, sets and creates as Pulsar's store sent them."""

    def __init__(self, store: BulkStore) -> None:
        self._store = store
        self._reads: deque[_Asked[Read]] = deque()
        self._writes: deque[_Asked[SetData | Create]] = deque()
        self._tasks = TaskScope("old store")
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._decoded: dict[str, object] = {}
        self._listeners = [self._refresh, *map(_looks_at, _OTHERS)]
        self._stop_watching: Callable[[], None] = _nothing

    async def start(self) -> None:
        """Begin to flush, and to hear of every change."""
        self._stop_watching = await self._store.watch(ROOT, self._notified)
        self._due_s = asyncio.get_running_loop().time()
        self._tick()

    async def close(self) -> None:
        """Stop flushing; no caller may be waiting."""
        self._stop_watching()
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.close()

    # What is asked of it.

    async def get(self, path: str) -> Versioned | None:
        """See `MetadataStore.get`."""
        node: Versioned | None = await self._read(Read(path))
        if node is not None and node.data.startswith(_OBJECT):
            self._decoded[path] = decode_object(node.data)
        return node

    async def children(self, path: str) -> list[str]:
        """See `MetadataStore.children`."""
        names: list[str] = await self._read(Read(path, Aspect.CHILDREN))
        return names

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore.set`."""
        stat: Stat = await self._write(SetData(path, data, version))
        return stat

    async def create(self, path: str, data: bytes = b"") -> Versioned:
        """See `MetadataStore.create`."""
        created: Versioned = await self._write(Create(path, data))
        return created

    # Notifications.

    def _notified(self, notification: Notification) -> None:
        for listener in self._listeners:
            listener(notification)

    def _refresh(self, notification: Notification) -> None:
        if self._decoded.pop(notification.path, None) is not None:
            self._tasks.start(self._read_again(notification.path), "refresh")

    async def _read_again(self, path: str) -> None:
        with contextlib.suppress(StoreError):
            await self.get(path)

    # The queues.

    def _read(self, read: Read) -> "asyncio.Future[Any]":
        asked = _Asked(read, len(read.path))
        self._reads.append(asked)
        if len(self._reads) > MOST_OPERATIONS:
            self._flush()
        return asked.future

    def _write(self, operation: SetData | Create) -> "asyncio.Future[Any]":
        asked = _Asked(operation, len(operation.path) + len(operation.data))
        self._writes.append(asked)
        if len(self._writes) > MOST_OPERATIONS:
            self._flush()
        return asked.future

    def _tick(self) -> None:
        # The next one is due a period after this one was, however late this one is.
        self._due_s += PERIOD_S
        self._timer = asyncio.get_running_loop().call_at(self._due_s, self._tick)
        self._flush()

    def _flush(self) -> None:
        while self._reads:
            self._tasks.start(self._execute_reads(_next_batch(self._reads)), "reads")
        while self._writes:
            self._tasks.start(self._execute_writes(_next_batch(self._writes)), "writes")

    # The batches.

    async def _execute_reads(self, batch: Sequence[_Asked[Read]]) -> None:
        reads = [asked.request for asked in batch]
        try:
            answers = await self._store.read_many(reads, _deadline_s())
        except StoreError as error:
            answers = [error] * len(batch)
        for asked, found in zip(batch, answers, strict=True):
            _settle(asked, found)

    async def _execute_writes(self, batch: Sequence[_Asked[SetData | Create]]) -> None:
        operations: list[Operation] = [asked.request for asked in batch]
        try:
            outcomes: Sequence[object] = await self._store.write_many(operations, _deadline_s())
        except MultiFailed:
            for asked in batch:
                self._tasks.start(self._execute_writes([asked]), "write alone")
            return
        except StoreError as error:
            outcomes = [error] * len(batch)
        for asked, outcome in zip(batch, outcomes, strict=True):
            _settle(asked, outcome)


def _nothing() -> None:
    return


def _looks_at(root: str) -> Callable[[Notification], None]:
    """A listener that has nothing to do, and has to find that out."""
    steps = re.compile(rf"{root}/(?P<tenant>[^/]+)(?:/(?P<namespace>[^/]+))?(?:/(?P<rest>.*))?")

    def listen(notification: Notification) -> None:
        if steps.fullmatch(notification.path) is not None:
            raise RuntimeError(f"{notification.path}: the storm changes no such node")

    return listen


def _next_batch(queue: deque[_Asked[R]]) -> list[_Asked[R]]:
    batch: list[_Asked[R]] = []
    size_bytes = 0
    while queue and len(batch) < MOST_OPERATIONS:
        size_bytes += queue[0].size_bytes
        if batch and size_bytes > MOST_BYTES:
            break
        batch.append(queue.popleft())
    return batch


def _settle(asked: _Asked[R], found: object) -> None:
    if asked.future.done():
        return
    if isinstance(found, StoreError):
        asked.future.set_exception(found)
    else:
        asked.future.set_result(found)


def _deadline_s() -> float:
    return asyncio.get_running_loop().time() + _LIMIT_S
