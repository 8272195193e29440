"""The lane of writes.

A batch is one transaction of independent writes, so one write that the server refuses rolls all of
them back. Only that write fails. The others are sent again: those before it together (the server
found no fault with them), those behind it in two halves. A batch with many refusals so ends after a
logarithmic number of rounds, and is never sent as a thousand single requests at once. The writes
hold their paths exclusively, so no later request overtakes them.
Docs: zookeeper-wire, pulsar-batching.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial

from broker_ctl.errors import (
    Ambiguous,
    MultiFailed,
    NoNode,
    SessionExpired,
    StoreError,
    TooLarge,
)
from broker_ctl.store.batching.batch_rules import BatchMetrics
from broker_ctl.store.batching.entries import WriteEntry
from broker_ctl.store.batching.lane import Lane, LaneDependencies, Window
from broker_ctl.store.interface import Create, Operation, Outcome, RequestClass
from broker_ctl.store.path_rules import parent_of

# A write, and the outcomes of its changes.
Settled = tuple[WriteEntry, Sequence[Outcome] | StoreError]


class _Round:
    """One batch, and the parts of it that are sent again.

    Attributes:
        entries: how many the whole batch has.
        session_id: the session that sends it.
        deadline_s: all parts have ended by then.
        room: number of parts that may be in flight at once.
        is_over: whether the lane may send another batch in its place.
    """

    __slots__ = ("deadline_s", "entries", "is_over", "room", "session_id")

    def __init__(self, entries: int, session_id: int, deadline_s: float, most: int) -> None:
        self.entries = entries
        self.session_id = session_id
        self.deadline_s = deadline_s
        self.room = asyncio.Semaphore(most)
        self.is_over = False


class Writes:
    """Batches of writes, and the outcome of each."""

    def __init__(
        self, shared: LaneDependencies, window: Window, on_leave: Callable[[WriteEntry], None]
    ) -> None:
        rules = shared.rules
        self._shared = shared
        self._on_leave = on_leave
        self.lane = Lane[WriteEntry](
            rules,
            rules.max_bytes,
            window,
            is_eager=shared.request_class is not RequestClass.BULK,
            is_settling=partial(shared.settling.is_behind, shared.request_class),
            cut=self._cut,
            send=self._start,
        )

    def put(self, entry: WriteEntry) -> None:
        """Queue a write for the next batch; the entry has its turn on all its paths."""
        self.lane.put(entry)

    def _cut(self, queue: deque[WriteEntry], most: int) -> list[WriteEntry]:
        batch: list[WriteEntry] = []
        others: list[WriteEntry] = []
        size_bytes, max_bytes = 0.0, self._shared.rules.max_bytes
        # If every entry has another compatibility, no more entries are examined than a batch can
        # hold.
        while queue and len(batch) < most and len(others) < most:
            entry = queue[0]
            if batch and size_bytes + entry.size_bytes > max_bytes:
                break
            queue.popleft()
            if entry.future.done():  # given up while it waited
                self._discard(entry)
            elif batch and (
                entry.compatibility is None or entry.compatibility != batch[0].compatibility
            ):
                others.append(entry)
            else:
                batch.append(entry)
                size_bytes += entry.size_bytes
                if entry.compatibility is None:
                    break
        # They keep their places in the queue: no entry of this batch holds one of their paths.
        queue.extendleft(reversed(others))
        self._shared.waiting.remove(batch)
        return batch

    def _discard(self, entry: WriteEntry) -> None:
        self.lane.discard(entry)
        self._shared.waiting.remove((entry,))
        self._on_leave(entry)

    def _start(self, batch: list[WriteEntry]) -> None:
        shared = self._shared
        most = shared.rules.max_in_flight
        terms = _Round(len(batch), shared.store.session_id, shared.deadline_s(batch), most)
        with shared.metrics.sending(batch) if shared.metrics else nullcontext():
            shared.tasks.start(self._write(batch, terms), "writes")

    async def _write(self, batch: list[WriteEntry], terms: _Round) -> None:
        try:
            await self._send(batch, terms)
        finally:
            # On every outcome: no caller may wait for ever.
            self._fail(batch, Ambiguous("the write was given up", terms.session_id))
            self._make_room(terms)

    def _make_room(self, terms: _Round) -> None:
        if not terms.is_over:
            terms.is_over = True
            self.lane.on_reply(terms.entries)

    async def _send(self, batch: Sequence[WriteEntry], terms: _Round) -> None:
        checks, changes = _transaction(batch)
        try:
            async with terms.room:
                self._check_session(terms)
                began_s, in_flight = self._shared.clock.now_s(), self.lane.operations
                outcomes = await self._shared.store.write_many(
                    (*checks, *changes), terms.deadline_s
                )
        except MultiFailed as failed:
            await self._refused(batch, checks, failed, terms)
        except TooLarge as error:
            await self._send_again(batch, error, terms)
        except StoreError as error:
            self._fail(batch, error)
        else:
            if len(batch) == terms.entries:
                # Send the next batch before the callers of this one run: their work takes a while.
                self.lane.on_round_trip(in_flight, self._shared.clock.now_s() - began_s)
                self._make_room(terms)
            self._succeed(batch, outcomes[len(checks) :])

    def _check_session(self, terms: _Round) -> None:
        # The session may have expired while this part waited for a reply or for room.
        if terms.session_id not in {0, self._shared.store.session_id}:
            raise SessionExpired("the session is lost in whose name it was to be sent")

    async def _refused(
        self,
        batch: Sequence[WriteEntry],
        checks: Sequence[Operation],
        failed: MultiFailed,
        terms: _Round,
    ) -> None:
        if self._shared.metrics is not None:
            self._shared.metrics.count_rollback()
        if failed.index < len(checks):
            # One check serves all writes of the batch.
            for entry in batch:
                index = entry.operations.index(checks[failed.index])
                self._fail([entry], entry.refusal(index, failed.cause))
            return
        index = failed.index - len(checks)
        place = 0
        while index >= len(batch[place].changes):
            index -= len(batch[place].changes)
            place += 1
        entry, behind = batch[place], batch[place + 1 :]
        orphans = _orphans(batch, place, index) if isinstance(failed.cause, NoNode) else ()
        for orphan in orphans:
            first = len(orphan.operations) - len(orphan.changes)
            self._fail([orphan], orphan.refusal(first, NoNode(orphan.changes[0].path)))
        behind = [other for other in behind if not other.is_answered]
        middle = len(behind) // 2
        rest = (batch[:place], behind[:middle], behind[middle:])
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._refuse(entry, index, failed.cause, terms), name="refused")
            for part in rest:
                if part:
                    parts.create_task(self._send(part, terms), name="the rest")

    async def _send_again(
        self, batch: Sequence[WriteEntry], error: StoreError, terms: _Round
    ) -> None:
        if len(batch) == 1:
            self._fail(batch, error)
            return
        middle = len(batch) // 2
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._send(batch[:middle], terms), name="first half")
            parts.create_task(self._send(batch[middle:], terms), name="second half")

    async def _refuse(
        self, entry: WriteEntry, index: int, cause: StoreError, terms: _Round
    ) -> None:
        """Fail the write whose operation was refused.

        ``index`` counts the changes, behind the shared checks.
        """
        guilty = entry.changes[index]
        if not (entry.makes_parents and isinstance(cause, NoNode) and isinstance(guilty, Create)):
            before = len(entry.operations) - len(entry.changes)
            self._fail([entry], entry.refusal(before + index, cause))
            return
        create, zxid = self._shared.store.create, self._shared.store.last_zxid
        try:
            async with asyncio.timeout_at(terms.deadline_s), terms.room:
                self._check_session(terms)
                created = await create(
                    guilty.path, guilty.data, guilty.mode, ttl_ms=guilty.ttl_ms, make_parents=True
                )
        except TimeoutError:
            what = f"create {guilty.path}: no answer by its deadline"
            self._fail([entry], Ambiguous(what, terms.session_id, zxid))
        except StoreError as error:
            self._fail([entry], error)
        else:
            self._succeed([entry], [created])

    def _succeed(self, batch: Sequence[WriteEntry], outcomes: Sequence[Outcome]) -> None:
        settled: list[Settled] = []
        start = 0
        for entry in batch:
            end = start + len(entry.changes)
            settled.append((entry, outcomes[start:end]))
            entry.is_answered = True
            start = end
        self._deliver(settled)

    def _fail(self, batch: Sequence[WriteEntry], error: StoreError) -> None:
        failed = [entry for entry in batch if not entry.is_answered]
        for entry in failed:
            entry.is_answered = True
        if failed:
            self._deliver([(entry, error) for entry in failed])

    def _deliver(self, settled: Sequence[Settled]) -> None:
        self._shared.settling.put(self._shared.request_class, settled, self._settle)

    def _settle(self, settled: Sequence[Settled]) -> None:
        for entry, outcome in settled:
            if isinstance(outcome, StoreError):
                entry.fail(outcome)
            else:
                entry.succeed(outcome)
            self._on_leave(entry)
        if self._shared.metrics is not None:
            _measure(settled, self._shared.metrics)


def _orphans(batch: Sequence[WriteEntry], place: int, index: int) -> list[WriteEntry]:
    """Those behind a refused create that miss the same parent.

    Each of them alone would fail alike, and for each the rest of the batch would be sent again.
    """
    guilty = batch[place].changes[index]
    if not isinstance(guilty, Create):
        return []
    parent = parent_of(guilty.path)
    if any(change.path == parent for other in batch for change in other.changes):
        return []  # it may exist by the time that they are executed
    return [
        other
        for other in batch[place + 1 :]
        if not other.makes_parents
        and isinstance(first := other.changes[0], Create)
        and parent_of(first.path) == parent
    ]


def _measure(settled: Sequence[Settled], metrics: BatchMetrics) -> None:
    """Record latencies as Pulsar does: deletions by themselves, all other writes as puts."""
    ended: dict[tuple[str, bool], list[WriteEntry]] = defaultdict(list)
    size_bytes = 0
    for entry, outcome in settled:
        is_success = not isinstance(outcome, StoreError)
        ended["del" if entry.is_deletion else "put", is_success].append(entry)
        if is_success:
            size_bytes += entry.written_bytes
    for (kind, is_success), entries in ended.items():
        (metrics.observe_success if is_success else metrics.observe_failure)(kind, entries)
    if size_bytes:
        metrics.count_bytes(size_bytes)


def _transaction(batch: Sequence[WriteEntry]) -> tuple[tuple[Operation, ...], list[Operation]]:
    """The checks that all writes of ``batch`` share, and their changes."""
    first = batch[0]
    shared: tuple[Operation, ...] = ()
    if first.has_shared_checks and first.compatibility is not None:
        shared = tuple(first.compatibility[0])
    return shared, [operation for entry in batch for operation in entry.changes]
