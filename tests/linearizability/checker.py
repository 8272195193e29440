"""Whether a concurrent history could have happened one operation after the other.

The search of Wing and Gong, with Lowe's memory of what was tried: at each point one of the
operations that have begun, and before whose begin no other one has ended, is taken next. A history
is linearizable if all can be taken so that the model allows each answer.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

_NOBODY: Final = -1


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of a client.

    Attributes:
        called_s, returned_s: when; infinity: its answer is unknown, and it may be done later.
        wish: what was asked for.
        answer: what was answered; None: nothing.
    """

    called_s: float
    returned_s: float
    wish: tuple[Any, ...]
    answer: Any = None

    @property
    def is_answered(self) -> bool:
        return self.returned_s < math.inf


class Model(Protocol):
    """What one client alone would see.

    An operation without an answer must be allowed in every state: it may never have been done.
    """

    @property
    def initial(self) -> Hashable: ...

    def step(self, state: Any, operation: Operation) -> Hashable | None:
        """The next state; None if it could not be answered so."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """``stuck`` is the operation whose answer fits nowhere, behind all others that ended before."""

    stuck: Operation | None

    @property
    def is_linearizable(self) -> bool:
        return self.stuck is None


class _Events:
    """Begins and ends of operations in the order of time, as a list that can be unlinked.

    Event ``2 * n`` is the begin of operation ``n``, the next number its end; the last is the head.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        begins = [(one.called_s, 0, 2 * n) for n, one in enumerate(operations)]
        ends = [(one.returned_s, 1, 2 * n + 1) for n, one in enumerate(operations)]
        order = [event for *_, event in sorted(begins + ends)]
        self.head = 2 * len(operations)
        self._next = [_NOBODY] * (self.head + 1)
        self._before = [_NOBODY] * (self.head + 1)
        for before, after in zip([self.head, *order], [*order, _NOBODY], strict=True):
            self._next[before] = after
            if after != _NOBODY:
                self._before[after] = before

    @property
    def first(self) -> int:
        """`_NOBODY`: all are taken."""
        return self._next[self.head]

    def after(self, event: int) -> int:
        return self._next[event]

    def take(self, begin: int) -> None:
        """Unlink an operation."""
        for event in (begin, begin + 1):
            before, after = self._before[event], self._next[event]
            self._next[before] = after
            if after != _NOBODY:
                self._before[after] = before

    def put_back(self, begin: int) -> None:
        """As it was before `take`; in the opposite order of those."""
        for event in (begin + 1, begin):
            self._next[self._before[event]] = event
            if (after := self._next[event]) != _NOBODY:
                self._before[after] = event


def check(model: Model, operations: Sequence[Operation]) -> Verdict:
    """Search for an order."""
    events, state = _Events(operations), model.initial
    taken, tried = 0, {(0, state)}
    path: list[tuple[int, Any]] = []
    farthest, stuck = -1, None
    event = events.first
    while event != _NOBODY:
        number, is_end = divmod(event, 2)
        if is_end:
            if len(path) > farthest:
                farthest, stuck = len(path), operations[number]
            if not path:
                return Verdict(stuck)
            event, state = path.pop()
            events.put_back(event)
            taken ^= 1 << (event // 2)
            event = events.after(event)
            continue
        after = model.step(state, operations[number])
        known = (taken | 1 << number, after)
        if after is None or known in tried:
            event = events.after(event)
            continue
        tried.add(known)
        path.append((event, state))
        events.take(event)
        taken, state = known
        event = events.first
    return Verdict(None)
