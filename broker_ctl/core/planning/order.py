"""Orders the moves of a plan, so that no broker becomes fuller on the way than before or after it.

The ceiling is the usage of the fullest resource of the fullest broker, before the plan or after it,
whichever is higher. Moves run at the same time and end in any order, so the worst case counts: a
bundle loads its receiver from the start of its move, and leaves its source only at the end. A move
starts when its receiver has room for it under the ceiling in the worst case; otherwise it waits for
the end of the moves that make room. Bundles that brokers exchange while both are full cannot all
wait for each other: then the one that exceeds the ceiling least goes first, and the order says so.

Limits of brokers and caps of topics are never exceeded on the way. The moves of a plan keep them
one after another, so there is always such an order: each waits for all earlier ones that leave its
receiver. What has no room even then, because a bundle of an earlier plan is still leaving, is
postponed.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

from broker_ctl.core.planning.limit_room import NO_AMOUNTS, Amounts, LimitRoom
from broker_ctl.core.strategies.balance.resources import Demand

# Less than this is rounding.
_NOTHING = 1e-9
# Of moves that wait for one broker, or for each other, this number is looked at: there may be
# thousands.
_TRIED = 64


class Step(NamedTuple):
    """One move: a demand leaves one broker for another one, with what it takes of limits."""

    source: str
    destination: str
    demand: Demand
    takes: Amounts = NO_AMOUNTS


@dataclass(frozen=True, slots=True)
class Order:
    """The order of the moves, by their numbers.

    Attributes:
        sequence: every move that is not postponed, in the order in which they may start.
        waits: by move, the moves that must have ended before it starts.
        ceiling: usage of the fullest broker before or after all moves, whichever is higher.
        highest: usage of the fullest broker on the way in the worst case; at most ``ceiling``
            unless moves have to wait for each other in a circle.
        forced: moves that exceed the ceiling.
        postponed: moves that are not made, and the limit that each would exceed.
    """

    sequence: tuple[int, ...]
    waits: Mapping[int, tuple[int, ...]]
    ceiling: float
    highest: float
    forced: tuple[int, ...]
    postponed: Mapping[int, str] = field(default_factory=dict)


def order_moves(
    load: Mapping[str, Demand],
    capacity: Mapping[str, Demand],
    steps: Sequence[Step],
    limits: LimitRoom | None = None,
) -> Order:
    """Order moves; those that need not wait keep their order."""
    room = limits or LimitRoom()
    postponed = room.copy().blocked((each.source, each.destination, each.takes) for each in steps)
    moves = [number for number in range(len(steps)) if number not in postponed]
    brokers = _Brokers.of(load, capacity)
    after = brokers.after([steps[number] for number in moves])
    ceiling = max(brokers.fullest(), after.fullest())

    def begin() -> _Course:
        return _Course(_Brokers.of(load, capacity), room.copy(), ceiling, steps, moves)

    course = begin()
    if not course.run():
        course = begin()
        course.run_one_by_one()
    return Order(
        tuple(course.sequence),
        course.waits,
        ceiling,
        course.highest,
        tuple(course.forced),
        postponed,
    )


@dataclass(slots=True)
class _Brokers:
    """The load of each broker in the worst case."""

    load: dict[str, list[float]]
    capacity: Mapping[str, Demand]

    @classmethod
    def of(cls, load: Mapping[str, Demand], capacity: Mapping[str, Demand]) -> "_Brokers":
        return cls({each: list(values) for each, values in load.items()}, capacity)

    def usage(self, broker_id: str, more: Demand | None = None) -> float:
        load, capacity = self.load[broker_id], self.capacity[broker_id]
        extra = more or (0.0,) * len(load)
        return max((a + b) / c for a, b, c in zip(load, extra, capacity, strict=True))

    def fullest(self) -> float:
        return max(map(self.usage, self.load), default=0.0)

    def add(self, broker_id: str, demand: Demand) -> None:
        self.load[broker_id] = [a + b for a, b in zip(self.load[broker_id], demand, strict=True)]

    def subtract(self, broker_id: str, demand: Demand) -> None:
        # Rounding must not make a load negative.
        self.load[broker_id] = [
            max(0.0, a - b) for a, b in zip(self.load[broker_id], demand, strict=True)
        ]

    def after(self, steps: Sequence[Step]) -> "_Brokers":
        later = _Brokers(dict(self.load), self.capacity)
        for step in steps:
            later.subtract(step.source, step.demand)
            later.add(step.destination, step.demand)
        return later


@dataclass(slots=True)
class _Course:
    """The moves as they start and end, in waves; the brokers and their room are changed."""

    brokers: _Brokers
    room: LimitRoom
    ceiling: float
    steps: Sequence[Step]
    moves: Sequence[int]
    sequence: list[int] = field(default_factory=list)
    waits: dict[int, tuple[int, ...]] = field(default_factory=dict)
    forced: list[int] = field(default_factory=list)
    highest: float = field(init=False)
    # By receiver, the moves that have not started; by source, those that have ended.
    waiting: dict[str, dict[int, None]] = field(init=False)
    left: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.highest = self.brokers.fullest()
        self.waiting = defaultdict(dict)
        for move in self.moves:
            self.waiting[self.steps[move].destination][move] = None

    def run(self) -> bool:
        """Let as many as possible go at the same time.

        Returns False where moves wait for each other, and each of them would exceed a limit.
        """
        candidates = self.moves
        while candidates or self.waiting:
            started = [each for each in candidates if self._has_room(each) and self._start(each)]
            started = started or self._force_one()
            if not started:
                return False
            # Only where something has left there may be room now.
            candidates = self._end(started)
        return True

    def run_one_by_one(self) -> None:
        """Keep the order of the plan, which keeps every limit."""
        for move in self.moves:
            if self._usage_with(move) > self.ceiling + _NOTHING:
                self.forced.append(move)
            self._start(move)
            self._end([move])

    def _force_one(self) -> list[int]:
        """Start the move that exceeds the ceiling least and no limit, of the first that wait."""
        waiting = islice(chain.from_iterable(self.waiting.values()), _TRIED)
        moves = [each for each in waiting if self._keeps_limits(each)]
        if not moves:
            return []
        chosen = min(moves, key=lambda each: (self._usage_with(each), each))
        if self._usage_with(chosen) > self.ceiling + _NOTHING:
            self.forced.append(chosen)
        self._start(chosen)
        return [chosen]

    def _end(self, moves: Sequence[int]) -> list[int]:
        """The moves have ended: their bundles have left; returns moves that waited for that."""
        freed: dict[str, list[int]] = defaultdict(list)
        for each in moves:
            step = self.steps[each]
            self.brokers.subtract(step.source, step.demand)
            self.room.subtract(step.source, step.takes)
            freed[step.source].append(each)
        for source, gone in freed.items():
            self.left[source] = (*self.left.get(source, ()), *gone)
        return sorted(move for each in freed for move in islice(self.waiting.get(each, ()), _TRIED))

    def _usage_with(self, move: int) -> float:
        step = self.steps[move]
        return self.brokers.usage(step.destination, step.demand)

    def _keeps_limits(self, move: int) -> bool:
        step = self.steps[move]
        return self.room.exceeded_by(step.destination, step.takes) is None

    def _has_room(self, move: int) -> bool:
        return self._usage_with(move) <= self.ceiling + _NOTHING and self._keeps_limits(move)

    def _start(self, move: int) -> bool:
        step = self.steps[move]
        self.highest = max(self.highest, self._usage_with(move))
        self.brokers.add(step.destination, step.demand)
        self.room.add(step.destination, step.takes)
        self.sequence.append(move)
        del self.waiting[step.destination][move]
        if not self.waiting[step.destination]:
            del self.waiting[step.destination]
        # Moves to the same broker share one tuple until something more has left it.
        if step.destination in self.left:
            self.waits[move] = self.left[step.destination]
        return True
