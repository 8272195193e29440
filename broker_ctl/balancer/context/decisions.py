"""Decisions of the leader after they were made: recorded, logged, and kept for the next one."""

import asyncio
import logging
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any, Final

from broker_ctl.clock import Clock
from broker_ctl.codec import encode
from broker_ctl.coordination.election import Leadership
from broker_ctl.core.cluster.decisions import Assign, Decision, Skip, Transfer
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.history.cycle_rows import NOTHING_REPORTED, memory_in_bounds, rows_of_view
from broker_ctl.core.history.row_kinds import DECISIONS, POLICY_MEMORY, POLICY_VERSIONS
from broker_ctl.core.history.rows import (
    JournalEntry,
    Outcome,
    PolicyMemoryRow,
    PolicyVersionRow,
    RowJournal,
    decision_row,
)
from broker_ctl.core.strategies.shedding.policy import Memory
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
from broker_ctl.store.interface import (
    Create,
    Delete,
    MetadataStore,
    Operation,
    RequestClass,
    SetData,
    requests_as,
)
from broker_ctl.store.records.decisions import decode_kept_decisions, encode_kept_decisions

# A decision with its outcome, as a row of plain JSON values.


def outcome_row(entry: JournalEntry) -> dict[str, Any]:
    """A decision with its outcome."""
    return {
        **entry.decision.to_row(),
        "at_ms": entry.at_ms,
        "epoch": entry.epoch,
        "cycle": entry.cycle,
        "result": entry.outcome.result,
        "outcome": entry.outcome.detail,
        "took_s": entry.outcome.took_s,
    }


def subjects_of(row: Mapping[str, Any]) -> frozenset[str]:
    """The brokers and bundles that a decision is about."""
    keys = ("bundle", "source", "destination", "owner", "subject", "left", "right")
    return frozenset(str(row[key]) for key in keys if key in row)


# Decisions and their outcomes, as log lines, counters and rows of history.
#
# Docs: load-balancing.


log = logging.getLogger("broker_ctl.decisions")

_CAPACITY: Final = 1000
# Results of decisions that are not executed.
_HELD_BACK: Final = frozenset({"paused", "dry_run", "held_back"})

# Kind, reason and result: each comes from a closed list, which bounds the number of keys.
CountKey = tuple[str, str, str]


def entry_row(entry: JournalEntry) -> dict[str, Any]:
    """The entry as plain JSON values."""
    return {
        "at_ms": entry.at_ms,
        "epoch": entry.epoch,
        "cycle": entry.cycle,
        "decision": entry.decision.to_row(),
        "result": entry.outcome.result,
        "outcome": entry.outcome.detail,
        "took_s": entry.outcome.took_s,
    }


class DecisionLog:
    """The decisions of the leader, as far as this process has made them.

    A decision that repeats in each cycle (a `Skip`, or one suppressed by a pause or dry run) is
    counted each time, but logged and kept only once until another decision is executed.
    """

    def __init__(self, history: RowJournal | None = None, capacity: int = _CAPACITY) -> None:
        self._history = history
        self._capacity = capacity
        self._entries: OrderedDict[object, JournalEntry] = OrderedDict()
        self._standing: set[tuple[object, ...]] = set()
        self._counts: Counter[CountKey] = Counter()
        self._recorded = 0

    def counts(self) -> Mapping[CountKey, int]:
        """Decisions by kind, reason and result."""
        return dict(self._counts)

    def record(self, entry: JournalEntry) -> None:
        """Write down; never blocks, and never raises."""
        decision, outcome = entry.decision, entry.outcome
        self._recorded += 1
        self._counts[decision.kind, decision.reason.value, outcome.result] += 1
        self._hold(entry)
        if self._is_news(entry):
            level = logging.WARNING if outcome.result == "failed" else logging.INFO
            log.log(level, "%s", self._line(entry))
        if self._history is not None:
            row = decision_row(decision, outcome.result, outcome.detail, outcome.took_s)
            self._history.record_rows(
                DECISIONS, [row], epoch=entry.epoch, cycle=entry.cycle, at_ms=entry.at_ms
            )

    def recent(self, limit: int) -> list[JournalEntry]:
        """The newest entries, newest first."""
        return list(islice(reversed(self._entries.values()), limit))

    def _hold(self, entry: JournalEntry) -> None:
        key: object = _standing(entry) or self._recorded
        self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def _is_news(self, entry: JournalEntry) -> bool:
        standing = _standing(entry)
        if standing is None:
            # A decision was executed: repeated ones are logged again.
            self._standing.clear()
            return True
        if standing in self._standing:
            return False
        if len(self._standing) >= self._capacity:
            self._standing.clear()
        self._standing.add(standing)
        return True

    @staticmethod
    def _line(entry: JournalEntry) -> str:
        outcome = entry.outcome
        head = f"epoch {entry.epoch} cycle {entry.cycle}: {entry.decision.sentence}"
        if isinstance(entry.decision, Skip):
            return head
        took = f" in {outcome.took_s:.2f} s" if outcome.took_s else ""
        why = f": {outcome.detail}" if outcome.detail else ""
        return f"{head} -> {outcome.result}{took}{why}"


def _standing(entry: JournalEntry) -> tuple[object, ...] | None:
    """Key of a decision that repeats in each cycle; None if something was executed."""
    decision, result = entry.decision, entry.outcome.result
    if isinstance(decision, Skip):
        return decision.subject, decision.reason
    if result not in _HELD_BACK:
        return None
    where = decision.destination if isinstance(decision, Assign | Transfer) else None
    return result, decision.kind, decision.bundles, where


# Records the decisions of one term with their outcomes.


class DecisionRecorder:
    """Records decisions in the journal and the stored history.

    Args:
        keep: called with each entry, to store it beyond this process.

    Attributes:
        cycle: number of the newest cycle; decisions outside of a cycle are counted to it.
        done: executed decisions, by kind.
        relieved_brokers: brokers that bundles were moved from, each counted once per cycle.
    """

    def __init__(
        self, journal: DecisionLog, clock: Clock, epoch: int, keep: Callable[[JournalEntry], None]
    ) -> None:
        self._journal = journal
        self._keep = keep
        self._clock = clock
        self._epoch = epoch
        self.cycle = 0
        self.done: Counter[str] = Counter()
        self.relieved_brokers = 0
        self._relieved: tuple[int, set[str]] = (0, set())

    def record(self, decision: Decision, outcome: Outcome) -> None:
        """Record one decision."""
        if outcome.result == "done":
            self.done[decision.kind] += 1
            if isinstance(decision, Transfer):
                self._relieve(decision.source)
        at_ms = self._clock.wall_ms()
        entry = JournalEntry(at_ms, self._epoch, self.cycle, decision, outcome)
        self._journal.record(entry)
        self._keep(entry)

    def _relieve(self, broker_id: str) -> None:
        cycle, brokers = self._relieved
        if cycle != self.cycle:
            brokers = set()
            self._relieved = (self.cycle, brokers)
        if broker_id not in brokers:
            brokers.add(broker_id)
            self.relieved_brokers += 1


# The history of executed decisions, in the store so that it survives the leader.
#
# The leader appends its decisions to nodes under ``/broker-ctl/decisions``, some hundred to a
# node; creating a new node deletes the oldest. A later leader reads them when its term begins.


decision_history_log = logging.getLogger(__name__)

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
            self._pending.append(outcome_row(entry))
            self._has_pending.set()

    def rows(self, remembered: Iterable[JournalEntry]) -> Iterator[Row]:
        """Stored rows and those that only this process has, the newest first.

        Args:
            remembered: the newest first.
        """
        kept = [*reversed(self._pending), *reversed(self._rows)]
        known = {_identity(row) for row in kept}
        own = (row for entry in remembered if _identity(row := outcome_row(entry)) not in known)
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
                decision_history_log.warning(
                    "skipped a node of the history of decisions: %s", error
                )
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
                decision_history_log.debug("another leader created %s meanwhile", paths.DECISIONS)


def _number(name: str) -> int | None:
    return int(name) if name.isdecimal() and name.isascii() else None


def _identity(row: Row) -> tuple[object, ...]:
    return row["epoch"], row["at_ms"], row["sentence"]


# Records the leader's view and memory of each cycle in the history.


@dataclass(frozen=True, slots=True)
class LeaderHistory:
    """The history of the leader's rows, and the policy that it records.

    Attributes:
        policy: called in each cycle.
    """

    rows: RowJournal
    policy: Callable[[], PolicyVersionRow]


class HistoryRecorder:
    """Records one term; rows that stay valid until changed are repeated in each term."""

    def __init__(self, history: LeaderHistory, epoch: int) -> None:
        self._history = history
        self._epoch = epoch
        self._recorded = NOTHING_REPORTED
        self._policy: PolicyVersionRow | None = None

    async def record_view(self, view: ClusterView, cycle: int) -> None:
        """Record the view of a cycle; yields to the event loop every few hundred bundles.

        The view does not change meanwhile; rows of other kinds may be written between its rows.
        """
        rows, at_ms = self._history.rows, view.taken_at_ms
        policy = self._history.policy()
        if policy != self._policy:
            self._policy = policy
            rows.record_rows(POLICY_VERSIONS, [policy], epoch=self._epoch, cycle=cycle, at_ms=at_ms)
        seen = rows_of_view(self._recorded, view)
        while True:
            try:
                batch = next(seen)
            except StopIteration as stop:
                self._recorded = stop.value
                return
            rows.record_rows(batch.kind, batch.rows, epoch=self._epoch, cycle=cycle, at_ms=at_ms)
            await asyncio.sleep(0)

    def record_memory(self, memory: Memory, view: ClusterView, cycle: int) -> None:
        """Record the memory of the shedding strategy after a cycle."""
        kept, is_whole = memory_in_bounds(memory, len(view.bundles))
        row = PolicyMemoryRow(encode(kept).decode(), is_whole)
        self._history.rows.record_rows(
            POLICY_MEMORY, [row], epoch=self._epoch, cycle=cycle, at_ms=view.taken_at_ms
        )
