"""A request between its caller and its batch: its order on a path, its answer, its turn."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.errors import MultiFailed, StoreError
from broker_ctl.store.interface import (
    Aspect,
    Check,
    Create,
    Delete,
    Operation,
    Outcome,
    Read,
    RequestClass,
    SetData,
)

# Estimates of how large replies will be.
#
# A reply beyond jute.maxbuffer closes the connection without an error. Payloads of one kind vary
# by orders of magnitude, so an estimate by the largest one observed (as in Pulsar) would leave
# batches of a handful of reads; the mean and the mean deviation of the kind bound a sum much more
# tightly. Docs: pulsar-batching.


# Estimate for a node of a kind that no reply has had yet: 128 of them fill half of the default
# jute.maxbuffer.
_UNKNOWN_BYTES: Final = 4096.0
_WEIGHT: Final = 1 / 32
_MOST_KINDS: Final = 512
# Long enough to distinguish /admin/policies from /admin/local-policies, too short to include a
# tenant.
_PREFIX: Final = 9
# Stat, lengths and header of one result.
RESULT_BYTES: Final = 88


class EntryKind:
    """Nodes of similar size: their paths have the same first characters and the same depth."""

    __slots__ = ("mean_bytes", "spread_bytes")

    def __init__(self) -> None:
        self.mean_bytes = self.spread_bytes = _UNKNOWN_BYTES / 2

    @property
    def likely_bytes(self) -> float:
        """The size that one node is counted with.

        The sum of n such sizes exceeds the sum that is likely by about n mean deviations.
        """
        return self.mean_bytes + self.spread_bytes

    def observe(self, size_bytes: int) -> None:
        """Update the estimate with one reply; the last few dozen replies dominate it."""
        off = size_bytes - self.mean_bytes
        self.mean_bytes += off * _WEIGHT
        self.spread_bytes += ((off if off > 0 else -off) - self.spread_bytes) * _WEIGHT


class ReplySizes:
    """The size estimates by kind, bounded in number."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, int], EntryKind] = {}
        self._others = EntryKind()

    def kind(self, path: str) -> EntryKind:
        """The kind of ``path``."""
        key = (path[1:_PREFIX], path.count("/"))
        found = self._kinds.get(key)
        if found is not None:
            return found
        if len(self._kinds) >= _MOST_KINDS:
            # All new paths share one kind, and estimates are worse.
            return self._others
        return self._kinds.setdefault(key, EntryKind())


# Order of requests on a path: first come, first served, whatever their lane.
#
# Several batches are in flight at once, and one that fails is sent again in parts, so the order of
# the connection is not enough. A write holds its path exclusively from the moment it may be sent
# until its caller has the answer; reads share a path, and so do the checks of transactions.


class Claimant(Protocol):
    """A request that claims paths.

    ``turns`` counts the paths on which another claimant is ahead of it.
    """

    turns: int

    @property
    def alone(self) -> Sequence[str]:
        """Paths that it holds exclusively."""
        ...

    @property
    def shared(self) -> Sequence[str]:
        """Paths that it shares with other claimants."""
        ...


C = TypeVar("C", bound=Claimant)

# Holders of a path without a queue: the number of sharers, or the exclusive holder.
_ALONE: Final = -1


class _Line(Generic[C]):
    """A path with a queue. ``holders`` as above."""

    __slots__ = ("holders", "waiting")

    def __init__(self, holders: int) -> None:
        self.holders = holders
        self.waiting: deque[tuple[C, bool]] = deque()


class PathOrder(Generic[C]):
    """Claims on paths, granted in the order in which they were made."""

    def __init__(self) -> None:
        self._lines: dict[str, int | _Line[C]] = {}

    def __len__(self) -> int:
        """Paths on which there is any claim."""
        return len(self._lines)

    def acquire_shared(self, path: str) -> bool:
        """`enter` for a claimant with one shared path, if no claimant is before it; else False."""
        holders = self._lines.get(path, 0)
        if isinstance(holders, _Line) or holders == _ALONE:
            return False
        self._lines[path] = holders + 1
        return True

    def acquire_exclusive(self, path: str) -> bool:
        """`enter` for a claimant with one path alone, if no claimant is before it; else False."""
        if path in self._lines:
            return False
        self._lines[path] = _ALONE
        return True

    def release_shared(self, path: str) -> bool:
        """`leave` for one shared path, if no claimant waits; else do nothing and return False."""
        holders = self._lines[path]
        if isinstance(holders, _Line):
            return False
        if holders == 1:
            del self._lines[path]
        else:
            self._lines[path] = holders - 1
        return True

    def enter(self, claimant: C) -> bool:
        """Claim all its paths; return whether it may be sent.

        If not, a later `leave` returns it.
        """
        claimant.turns = 0
        for path in claimant.alone:
            self._claim(claimant, path, is_shared=False)
        for path in claimant.shared:
            self._claim(claimant, path, is_shared=True)
        return claimant.turns == 0

    def _claim(self, claimant: C, path: str, *, is_shared: bool) -> None:
        if self.acquire_shared(path) if is_shared else self.acquire_exclusive(path):
            return
        line = self._lines[path]
        if not isinstance(line, _Line):
            line = self._lines[path] = _Line(line)
        line.waiting.append((claimant, is_shared))
        claimant.turns += 1

    def leave(self, paths: Sequence[str]) -> list[C]:
        """Release granted claims.

        Return the claimants that may be sent now, in the order of their claims.
        """
        ready: list[C] = []
        for path in paths:
            line = self._lines[path]
            if isinstance(line, _Line):
                self._leave_line(path, line, ready)
            elif line > 1:
                self._lines[path] = line - 1
            else:
                del self._lines[path]
        return ready

    def _leave_line(self, path: str, line: _Line[C], ready: list[C]) -> None:
        line.holders = 0 if line.holders == _ALONE else line.holders - 1
        while line.waiting:
            claimant, is_shared = line.waiting[0]
            if line.holders and not (is_shared and line.holders > 0):
                return
            line.waiting.popleft()
            line.holders = line.holders + 1 if is_shared else _ALONE
            claimant.turns -= 1
            if not claimant.turns:
                ready.append(claimant)
        self._lines[path] = line.holders


# Delivers answers to their callers, class by class and a few at a time.
#
# A reply of a thousand nodes wakes a thousand tasks; if they all ran in one turn of the loop, a
# heartbeat, a command or a lookup that arrived meanwhile would wait for all of them. PIP-453 uses
# worker threads for the same purpose. Here the answers of a more urgent class come first, and the
# number of callers that a turn wakes follows from how long the last turns took: the work of
# callers is not known, and it is theirs that makes a turn long.


# How long a turn of the loop may take before fewer callers are woken in the next. A request passes
# some four turns: to its call, to its task, to its reply, and back to its task.
TURN_S: Final = 0.0005
FEWEST_A_TURN: Final = 8
MOST_A_TURN: Final = 256
_FIRST: Final = 16
_FASTER: Final = 4
_SLOWER: Final = 0.75
# Share of a turn that classes in front leave to those behind them, so that none starves.
_LEFT: Final = 8

Settle = Callable[[Sequence[Any]], None]


class Settling:
    """Queues between replies and callers, bounded by the number of requests in flight."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: tuple[deque[tuple[Sequence[Any], Settle]], ...] = tuple(
            deque() for _ in RequestClass
        )
        self._done = [0 for _ in RequestClass]  # of the first batch
        self._turn: asyncio.Handle | None = None
        self._began_s = 0.0
        self._quota = _FIRST

    def is_behind(self, request_class: RequestClass) -> bool:
        """Whether callers of a class wait for answers that are there."""
        return bool(self._queues[request_class])

    def put(self, request_class: RequestClass, batch: Sequence[Any], settle: Settle) -> None:
        """Queue these; they are settled after all of their class that was queued earlier."""
        self._queues[request_class].append((batch, settle))
        if self._turn is None:
            self._began_s = 0.0
            self._run()

    def _run(self) -> None:
        if not any(self._queues):
            self._turn = None
            return
        self._adapt()
        # Even if the queues are empty afterwards: entries that arrive in this turn are settled in
        # the next.
        self._turn = asyncio.get_running_loop().call_soon(self._run)
        left = self._quota
        for place, queue in enumerate(self._queues):
            if queue:
                left -= self._settle(place, queue, max(left, 1 + self._quota // _LEFT))

    def _settle(self, place: int, queue: deque[tuple[Sequence[Any], Settle]], most: int) -> int:
        settled = 0
        while queue and settled < most:
            (batch, settle), start = queue[0], self._done[place]
            end = min(start + most - settled, len(batch))
            if end == len(batch):
                queue.popleft()
                self._done[place] = 0
            else:
                self._done[place] = end
            settled += end - start
            settle(batch if end - start == len(batch) else batch[start:end])
        return settled

    def _adapt(self) -> None:
        """Wake fewer callers in the next turn if the last one took too long, else more."""
        now_s = self._clock.cpu_s()
        if self._began_s:
            if now_s - self._began_s > TURN_S:
                self._quota = max(FEWEST_A_TURN, int(self._quota * _SLOWER))
            else:
                self._quota = min(MOST_A_TURN, self._quota + _FASTER)
        self._began_s = now_s


# A request between its caller and its batch.


# Bytes of one operation on the wire besides path and data: header, lengths, version, access control
# list.
OVERHEAD_BYTES: Final = 64

# Only writes with the same value share a batch: writes of ephemeral nodes fail with their session
# and others do not, and the checks of a transaction guard that transaction alone.
Compatibility = tuple[tuple[Check, ...], bool]


class Awaited(Protocol):
    """What of a future a request needs."""

    def done(self) -> bool:
        """Whether there is an answer, or nobody waits for it any more."""
        ...

    def set_result(self, result: Any, /) -> None:
        """Answer."""
        ...

    def set_exception(self, exception: BaseException, /) -> None:
        """Fail."""
        ...


class ReadsTogether:
    """The answers of reads that one caller awaits together, in one future.

    A future for each would cost as much as the read: the loop calls back for every one of them.

    Attributes:
        answers: in their order.
        failures: by their numbers.
        future: done with the last answer, or once the caller has given up.
    """

    def __init__(self, count: int, future: "asyncio.Future[None]") -> None:
        self.answers: list[Any] = [None] * count
        self.failures: dict[int, BaseException] = {}
        self.future = future
        self._left = count

    def count_down(self) -> None:
        """One of them has ended."""
        self._left -= 1
        if not self._left and not self.future.done():
            self.future.set_result(None)


class ReadOfSeveral:
    """One of them, by its number: see `Awaited`."""

    __slots__ = ("_is_done", "_number", "_together")

    def __init__(self, together: ReadsTogether, number: int) -> None:
        self._together = together
        self._number = number
        self._is_done = False

    def done(self) -> bool:
        """See `Awaited.done`."""
        return self._is_done or self._together.future.done()

    def set_result(self, result: Any, /) -> None:
        """See `Awaited.set_result`."""
        self._is_done = True
        self._together.answers[self._number] = result
        self._together.count_down()

    def set_exception(self, exception: BaseException, /) -> None:
        """See `Awaited.set_exception`."""
        self._is_done = True
        self._together.failures[self._number] = exception
        self._together.count_down()


class BatchEntry:
    """One request: it waits for its turn on its paths, then for its batch, then for its answer.

    Attributes:
        future: settled once, with the answer or the error that the caller gets.
        made_s: when, on the clock of the store.
        size_bytes: its share of the request, or of the reply if that is larger.
        weight: operations that it has.
        turns: number of paths on which other entries are ahead of it.
        put: queues it in the lane of its class, once it has its turn on all its paths.
    """

    __slots__ = ()

    future: Awaited
    made_s: float
    size_bytes: float
    weight: int
    turns: int
    put: Callable[[Any], None]

    def fail(self, error: StoreError) -> None:
        """Fail with a copy of the error.

        One instance raised in many tasks would collect the tracebacks of all of them.
        """
        if not self.future.done():
            self.future.set_exception(_copy(error))


class ReadEntry(Read, BatchEntry):
    """A read; it shares its path.

    Attributes:
        kind: what is known of the sizes of nodes like this one.
    """

    __slots__ = ("future", "kind", "made_s", "put", "size_bytes", "turns")

    weight = 1
    alone: Sequence[str] = ()
    kind: EntryKind

    def __init__(
        self,
        path: str,
        aspect: Aspect,
        future: Awaited,
        made_s: float,
        put: Callable[["ReadEntry"], None],
    ) -> None:
        self.path = path
        self.aspect = aspect
        self.future = future
        self.made_s = made_s
        self.put = put

    @property
    def shared(self) -> Sequence[str]:
        """See `Claimant`."""
        return (self.path,)

    @property
    def claims(self) -> Sequence[str]:
        """All its paths."""
        return (self.path,)


class WriteEntry(BatchEntry):
    """A write, or a transaction, which is never divided.

    Attributes:
        compatibility: it shares a batch only with entries of an equal value; None: with no other
            entry.
        makes_parents: whether missing parents of the nodes that it creates are created too.
        is_answered: whether its outcome is known, even if the caller does not have it yet.
    """

    __slots__ = (
        "alone",
        "compatibility",
        "future",
        "has_shared_checks",
        "is_answered",
        "is_single",
        "made_s",
        "makes_parents",
        "operations",
        "put",
        "shared",
        "size_bytes",
        "turns",
        "weight",
    )

    alone: Sequence[str]
    shared: Sequence[str]

    def __init__(
        self,
        operations: Sequence[Operation],
        future: "asyncio.Future[Any]",
        made_s: float,
        put: Callable[["WriteEntry"], None],
        *,
        is_transaction: bool = False,
    ) -> None:
        self.operations = operations
        self.weight = len(operations)
        self.future = future
        self.made_s = made_s
        self.put = put
        self.makes_parents = self.is_answered = self.has_shared_checks = False
        self.is_single = not is_transaction
        self.compatibility: Compatibility | None
        if self.is_single:
            self._single(operations[0])
        else:
            self._several(operations)

    @property
    def claims(self) -> Sequence[str]:
        """All its paths."""
        return (*self.alone, *self.shared) if self.shared else self.alone

    def _single(self, operation: Operation) -> None:
        self.alone, self.shared, self.compatibility = (operation.path,), (), _PLAIN
        size = OVERHEAD_BYTES + len(operation.path)
        if isinstance(operation, SetData):
            size += len(operation.data)
        elif isinstance(operation, Create):
            size += len(operation.data)
            if operation.mode.is_sequential:
                # The server completes the name: the entry claims no path, and if the reply is lost
                # the node has to be found by its mark.
                self.alone, self.compatibility = (), None
            elif operation.mode.is_ephemeral:
                self.compatibility = _EPHEMERAL
        self.size_bytes = size

    def _several(self, operations: Sequence[Operation]) -> None:
        checks = [op for op in operations if isinstance(op, Check)]
        changes = [op for op in operations if not isinstance(op, Check)]
        own = [op.path for op in changes if not (isinstance(op, Create) and op.mode.is_sequential)]
        alone = dict.fromkeys(own)
        checked = dict.fromkeys(check.path for check in checks)
        self.alone = tuple(alone)
        self.shared = tuple(path for path in checked if path not in alone)
        makes_ephemerals = any(isinstance(op, Create) and op.mode.is_ephemeral for op in changes)
        # A check can move to the head of the batch only if the batch does not change its node, and
        # only if it is first in this transaction too: otherwise another operation would fail first.
        distinct = tuple(dict.fromkeys(checks))
        is_sociable = (
            len(self.shared) == len(distinct)
            and list(operations[: len(checks)]) == checks
            and 0 < len(own) == len(changes)
        )
        self.compatibility = (distinct, makes_ephemerals) if is_sociable else None
        self.has_shared_checks = bool(checks and is_sociable)
        self.size_bytes = sum(_size(operation) for operation in operations)

    @property
    def changes(self) -> Sequence[Operation]:
        """Its operations without the checks that stand at the head of its batch."""
        if not self.has_shared_checks:
            return self.operations
        return [op for op in self.operations if not isinstance(op, Check)]

    @property
    def is_deletion(self) -> bool:
        """Whether it deletes one node."""
        return self.is_single and isinstance(self.operations[0], Delete)

    @property
    def written_bytes(self) -> int:
        """Size of the values that it writes."""
        return sum(
            len(operation.data)
            for operation in self.operations
            if isinstance(operation, SetData | Create)
        )

    def succeed(self, outcomes: Sequence[Outcome]) -> None:
        """Succeed with the outcomes of `changes`."""
        if self.future.done():
            return
        for outcome in outcomes:
            if isinstance(outcome, StoreError):
                self.fail(outcome)
                return
        if self.is_single:
            self.future.set_result(outcomes[0])
        elif not self.has_shared_checks:
            self.future.set_result(tuple(outcomes))
        else:
            results = iter(outcomes)
            self.future.set_result(
                tuple(None if isinstance(op, Check) else next(results) for op in self.operations)
            )

    def refusal(self, index: int, cause: StoreError) -> StoreError:
        """Error for its caller when the operation at ``index`` was refused."""
        if self.is_single:
            return cause
        return MultiFailed(index, self.operations[index].path, _copy(cause))


_PLAIN: Final[Compatibility] = ((), False)
_EPHEMERAL: Final[Compatibility] = ((), True)


def _size(operation: Operation) -> int:
    data = operation.data if isinstance(operation, Create | SetData) else b""
    return OVERHEAD_BYTES + len(operation.path) + len(data)


def _copy(error: StoreError) -> StoreError:
    copied = error.__class__.__new__(error.__class__, *error.args)
    copied.args = error.args
    copied.__dict__.update(error.__dict__)
    copied.__cause__ = error.__cause__
    return copied
