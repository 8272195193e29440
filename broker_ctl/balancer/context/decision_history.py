"""The history of executed decisions, in the store so that it survives the leader.

The leader appends its decisions to nodes under ``/broker-ctl/decisions``, some hundred to a node;
creating a new node deletes the oldest. A later leader reads them when its term begins.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from heapq import merge
from typing import Any, Final

from broker_ctl.balancer.context.decision_rows import decision_row
from broker_ctl.coordination.election.leadership import Leadership
from broker_ctl.core.history.journal import JournalEntry
from broker_ctl.errors import (
    Ambiguous,
    CorruptRecord,
    Fenced,
    MultiFailed,
    NewerVersion,
    NodeExists,
    StoreError,
)
from broker_ctl.retry import Backoff, is_any, retry
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, Delete, MetadataStore, Operation, SetData
from broker_ctl.store.records.decisions import decode_kept_decisions, encode_kept_decisions
from broker_ctl.store.request_class import RequestClass, requests_as

log = logging.getLogger(__name__)

# Nodes stay small, because each batch rewrites one.
MAX_ROWS: Final = 128
MAX_NODES: Final = 32
# Maximum of unwritten decisions; the oldest are dropped.
_MAX_PENDING: Final = 1_000
# Only operators read it: a store that recovers has more urgent requests.
_BACKOFF: Final = Backoff(first_s=5.0, factor=2.0, max_s=10.0)
_FIRST: Final = 1
# Other results describe the cluster: the next leader records them again.
_CARRIED_OUT: Final = frozenset({"done", "failed"})

Row = Mapping[str, Any]


class DecisionHistory:
    """The history of one leadership, and of those before it.

    Args:
        backoff: pauses after failed requests to the store.
    """

    def __init__(
        self,
        store: MetadataStore,
        leadership: Leadership,
        *,
        rng: random.Random,
        backoff: Backoff = _BACKOFF,
    ) -> None:
        self._store = store
        self._leadership = leadership
        self._rng = rng
        self._backoff = backoff
        self._rows: deque[Row] = deque(maxlen=MAX_NODES * MAX_ROWS)
        self._pending: deque[Row] = deque(maxlen=_MAX_PENDING)
        self._has_pending = asyncio.Event()
        self._is_read = False
        # The current node: its number, its version (None: it does not exist), its rows.
        self._number = _FIRST
        self._version: int | None = None
        self._batch: list[Row] = []
        self._numbers: deque[int] = deque()

    @property
    def pending(self) -> int:
        """Decisions that are not in the store yet."""
        return len(self._pending)

    @property
    def is_read(self) -> bool:
        """Whether the decisions of earlier leaders have been read."""
        return self._is_read

    def record(self, entry: JournalEntry) -> None:
        """Queue a decision that was executed, or failed; never waits."""
        if entry.outcome.result in _CARRIED_OUT:
            self._pending.append(decision_row(entry))
            self._has_pending.set()

    def rows(self, remembered: Iterable[JournalEntry]) -> Iterator[Row]:
        """Stored rows and those that only this process has, the newest first.

        Args:
            remembered: the newest first.
        """
        kept = [*reversed(self._pending), *reversed(self._rows)]
        known = {_identity(row) for row in kept}
        own = (row for entry in remembered if _identity(row := decision_row(entry)) not in known)
        return merge(kept, own, key=lambda row: -int(row["at_ms"]))

    async def run(self) -> None:
        """Read the decisions of earlier leaders, then write new ones, until cancelled.

        Raises:
            Fenced: another leader was elected.
            AuthorityLost: this leadership has ended.
        """
        await self._retry_store(self._read)
        while True:
            await self._has_pending.wait()
            self._has_pending.clear()
            while self._pending:
                await self._retry_store(self._write)

    async def _retry_store(self, work: Callable[[], Awaitable[None]]) -> None:
        async def attempt() -> None:
            await self._leadership.wait_deciding()
            with requests_as(RequestClass.BULK):
                await work()

        await retry(
            attempt,
            "cannot read or write the history of decisions",
            rng=self._rng,
            judge=is_any(StoreError),
            backoff=self._backoff,
        )

    async def _read(self) -> None:
        # Sync first: an earlier leader may have written until just now.
        await self._store.sync(paths.DECISIONS)
        numbers = sorted(filter(None, map(_number, await self._store.children(paths.DECISIONS))))
        nodes = await self._store.get_many([paths.decisions(each) for each in numbers])
        self._rows.clear()
        for node in nodes:
            if node is None:
                continue
            try:
                self._rows.extend(decode_kept_decisions(node.path, node.data))
            except (CorruptRecord, NewerVersion) as error:
                log.warning("skipped a node of the history of decisions: %s", error)
        self._numbers = deque(numbers)
        self._number = numbers[-1] + 1 if numbers else _FIRST
        self._is_read = True

    async def _write(self) -> None:
        """Write one batch, as a whole or not at all; an unanswered write is resolved by reading."""
        room = MAX_ROWS - len(self._batch)
        fresh = [row for row, _ in zip(self._pending, range(room), strict=False)]
        data = encode_kept_decisions([*self._batch, *fresh])
        try:
            version = await self._send(data)
        except Ambiguous:
            node = await self._store.get(paths.decisions(self._number))
            if node is None or node.data != data:
                # It was not written: the stored node is as before.
                return
            version = node.stat.version
        if self._version is None:
            self._numbers.append(self._number)
            while len(self._numbers) > MAX_NODES:
                self._numbers.popleft()
        self._version = version
        for row in fresh:
            self._pending.popleft()
            self._batch.append(row)
            self._rows.append(row)
        if len(self._batch) >= MAX_ROWS:
            self._number, self._version, self._batch = self._number + 1, None, []

    async def _send(self, data: bytes) -> int:
        """Write the node and return its new version.

        Raises:
            Fenced: another leader was elected.
            StoreError: it was not written.
        """
        path = paths.decisions(self._number)
        operations: list[Operation] = [self._leadership.guard]
        if self._version is None:
            operations.append(Create(path, data))
            over = len(self._numbers) + 1 - MAX_NODES
            oldest = [number for number, _ in zip(self._numbers, range(over), strict=False)]
            operations.extend(Delete(paths.decisions(number)) for number in oldest)
            await self._make_parent()
        else:
            operations.append(SetData(path, data, self._version))
        try:
            await self._store.multi(operations)
        except MultiFailed as error:
            if error.index == 0:
                raise Fenced(f"decisions of epoch {self._leadership.epoch}: {error}") from error
            # A node was changed by hand: start from the current nodes.
            await self._restart()
            raise error.cause from error
        return 0 if self._version is None else self._version + 1

    async def _restart(self) -> None:
        await self._read()
        self._version, self._batch = None, []

    async def _make_parent(self) -> None:
        if await self._store.exists(paths.DECISIONS) is None:
            try:
                await self._store.create(paths.DECISIONS, make_parents=True)
            except NodeExists:
                log.debug("another leader created %s meanwhile", paths.DECISIONS)


def _number(name: str) -> int | None:
    return int(name) if name.isdecimal() and name.isascii() else None


def _identity(row: Row) -> tuple[object, ...]:
    return row["epoch"], row["at_ms"], row["sentence"]
