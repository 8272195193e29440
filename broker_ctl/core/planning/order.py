"""Orders the moves of a plan, so that no broker becomes fuller on the way than before or after it.

The ceiling is the usage of the fullest resource of the fullest broker, before the plan or after it,
whichever is higher. Moves run at the same time and end in any order, so the worst case counts: a
bundle loads its receiver from the start of its move, and leaves its source only at the end. A move
starts when its receiver has room for it under the ceiling in the worst case; otherwise it waits for
the end of the moves that make room. Bundles that brokers exchange while both are full cannot all
wait for each other: then the one that exceeds the ceiling least goes first, and the order says so.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

from broker_ctl.core.strategies.balance.resources import Demand

# Less than this is rounding.
_NOTHING = 1e-9
# Of moves that wait for each other, this number is compared: there may be thousands.
_TRIED = 64


class Step(NamedTuple):
    """One move: a demand leaves one broker for another one."""

    source: str
    destination: str
    demand: Demand


@dataclass(frozen=True, slots=True)
class Order:
    """The order of the moves, by their numbers.

    Attributes:
        sequence: every move, in the order in which they may start.
        waits: by move, the moves that must have ended before it starts.
        ceiling: usage of the fullest broker before or after all moves, whichever is higher.
        highest: usage of the fullest broker on the way in the worst case; at most ``ceiling``
            unless moves have to wait for each other in a circle.
        forced: moves that exceed the ceiling.
    """

    sequence: tuple[int, ...]
    waits: Mapping[int, tuple[int, ...]]
    ceiling: float
    highest: float
    forced: tuple[int, ...]


def order_moves(
    load: Mapping[str, Demand], capacity: Mapping[str, Demand], steps: Sequence[Step]
) -> Order:
    """Order moves; those that need not wait keep their order."""
    brokers = _Brokers.of(load, capacity)
    ceiling = max(brokers.fullest(), brokers.after(steps).fullest())
    course = _Course(brokers, ceiling, steps)
    candidates: Sequence[int] = range(len(steps))
    while candidates or course.waiting:
        started = course.start_all(candidates) or [course.force_one()]
        # Only where something has left there may be room now.
        candidates = course.end(started)
    return Order(
        tuple(course.sequence), course.waits, ceiling, course.highest, tuple(course.forced)
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
    """The moves as they start and end, in waves; the brokers are changed."""

    brokers: _Brokers
    ceiling: float
    steps: Sequence[Step]
    sequence: list[int] = field(default_factory=list)
    waits: dict[int, tuple[int, ...]] = field(default_factory=dict)
    forced: list[int] = field(default_factory=list)
    highest: float = field(init=False)
    # By receiver, the moves that have not started; by source, those that have ended.
    waiting: dict[str, dict[int, None]] = field(init=False)
    left: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.highest = self.brokers.fullest()
        self.waiting = defaultdict(dict)
        for move, step in enumerate(self.steps):
            self.waiting[step.destination][move] = None

    def start_all(self, candidates: Sequence[int]) -> list[int]:
        """Start every one of these moves whose receiver has room."""
        return [each for each in candidates if self._has_room(each) and self._start(each)]

    def force_one(self) -> int:
        """Start the move that exceeds the ceiling least, of the first few that wait."""
        moves = chain.from_iterable(self.waiting.values())
        chosen = min(islice(moves, _TRIED), key=lambda each: (self._usage_with(each), each))
        self.forced.append(chosen)
        self._start(chosen)
        return chosen

    def end(self, moves: Sequence[int]) -> list[int]:
        """The moves have ended: their bundles have left; returns the moves that waited for that."""
        for each in moves:
            step = self.steps[each]
            self.brokers.subtract(step.source, step.demand)
            self.left[step.source].append(each)
        freed = {self.steps[each].source for each in moves}
        return sorted(move for each in freed for move in self.waiting.get(each, ()))

    def _usage_with(self, move: int) -> float:
        step = self.steps[move]
        return self.brokers.usage(step.destination, step.demand)

    def _has_room(self, move: int) -> bool:
        return self._usage_with(move) <= self.ceiling + _NOTHING

    def _start(self, move: int) -> bool:
        step = self.steps[move]
        self.highest = max(self.highest, self._usage_with(move))
        self.brokers.add(step.destination, step.demand)
        self.sequence.append(move)
        del self.waiting[step.destination][move]
        if not self.waiting[step.destination]:
            del self.waiting[step.destination]
        if self.left[step.destination]:
            self.waits[move] = tuple(self.left[step.destination])
        return True
