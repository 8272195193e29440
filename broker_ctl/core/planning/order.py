"""Orders the moves of a plan, so that no broker becomes fuller on the way."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from math import inf
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from broker_ctl.core.cluster.decisions import Action, Assign, Reason, Skip, Transfer
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.model.load import UsageWeights
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.rules.limits import MEASURES
from broker_ctl.core.strategies.balance.demands import Demand, Resources

# The room that limits of brokers and caps of topics leave while moves are under way.


# How much of each limit, by its name.
Amounts = Mapping[str, float]
NO_AMOUNTS: Final[Amounts] = MappingProxyType({})


@dataclass(slots=True)
class LimitRoom:
    """What every broker holds in the worst case: bundles count from the start of their moves.

    Attributes:
        held: by broker and limit.
        most: likewise.
        otherwise: the limit of what is not in ``most``.
    """

    held: dict[str, dict[str, float]] = field(default_factory=dict)
    most: Mapping[str, Amounts] = field(default_factory=dict)
    otherwise: float = inf

    def copy(self) -> "LimitRoom":
        """One that changes on its own."""
        held = {broker_id: dict(amounts) for broker_id, amounts in self.held.items()}
        return LimitRoom(held, self.most, self.otherwise)

    def exceeded_by(self, broker_id: str, amounts: Amounts) -> str | None:
        """A limit that the broker would exceed with these amounts; None: it has room for them."""
        most, held = self.most.get(broker_id, {}), self.held.get(broker_id, {})
        for name, amount in amounts.items():
            limit = most.get(name, self.otherwise)
            # Rounding must not decide.
            if amount > 0 and held.get(name, 0.0) + amount > limit * (1 + 1e-9):
                return name
        return None

    def add(self, broker_id: str, amounts: Amounts) -> None:
        """These amounts come."""
        held = self.held.setdefault(broker_id, {})
        for name, amount in amounts.items():
            held[name] = held.get(name, 0.0) + amount

    def subtract(self, broker_id: str, amounts: Amounts) -> None:
        """These amounts have left; rounding must not leave less than nothing."""
        held = self.held.setdefault(broker_id, {})
        for name, amount in amounts.items():
            held[name] = max(0.0, held.get(name, 0.0) - amount)

    def blocked(self, moves: Iterable[tuple[str, str, Amounts]]) -> Mapping[int, str]:
        """Make moves (source, receiver, amounts) one after another, as far as limits allow.

        Returns, by number, those that have no room even then, and what they would exceed.
        """
        found: dict[int, str] = {}
        for number, (source, destination, amounts) in enumerate(moves):
            name = self.exceeded_by(destination, amounts)
            if name is not None:
                found[number] = name
                continue
            self.add(destination, amounts)
            self.subtract(source, amounts)
        return found


# Orders the moves of a plan, so that no broker becomes fuller on the way than before or after it.
#
# The ceiling is the usage of the fullest resource of the fullest broker, before the plan or after
# it, whichever is higher. Moves run at the same time and end in any order, so the worst case
# counts: a bundle loads its receiver from the start of its move, and leaves its source only at
# the end. A move starts when its receiver has room for it under the ceiling in the worst case;
# otherwise it waits for the end of the moves that make room. Bundles that brokers exchange while
# both are full cannot all wait for each other: then the one that exceeds the ceiling least goes
# first, and the order says so.
#
# Limits of brokers and caps of topics are never exceeded on the way. The moves of a plan keep
# them one after another, so there is always such an order: each waits for all earlier ones that
# leave its receiver. What has no room even then, because a bundle of an earlier plan is still
# leaving, is postponed.


# Less than this is rounding.
_NOTHING = 1e-9
# Of moves that wait for one broker, or for each other, this number is looked at: there may be
# thousands.
_TRIED = 64


class OrderStep(NamedTuple):
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
    steps: Sequence[OrderStep],
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

    def after(self, steps: Sequence[OrderStep]) -> "_Brokers":
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
    steps: Sequence[OrderStep]
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


# Limits of brokers and caps of topics on a view, for the order of a plan's moves.


# Relative to the broker itself: brokers of other sizes compare in mean brokers.
_RELATIVE: Final = "usage"


class PlanLimits:
    """What bundles take of limits and caps, and what the receivers of a plan have left."""

    def __init__(self, view: ClusterView, rules: PlacementRules) -> None:
        self._view = view
        self._rules = rules

    def amounts(self, bundle: Bundle) -> Amounts:
        """What a bundle takes of each limit, and its partitions by topic; usage in mean brokers."""
        amounts: dict[str, float] = {}
        if self._rules.limits:
            load = self._view.bundles[bundle].load_vector
            amounts |= {name: float(measure.of(load)) for name, measure in MEASURES.items()}
        if self._rules.topic_cap:
            amounts |= self._view.constraints.topics.of(bundle)
        return amounts

    def room(self, decisions: Sequence[Action]) -> LimitRoom:
        """The room of the brokers that receive something.

        What is placed counts from the start, and what an earlier plan moves counts until it has
        left.
        """
        if not self._rules.limits and not self._rules.topic_cap:
            return LimitRoom()
        receivers = {each.destination for each in decisions if isinstance(each, Transfer)}
        brokers = {each: self._view.brokers[each] for each in sorted(receivers)}
        room = LimitRoom(
            {broker_id: self._held(broker) for broker_id, broker in brokers.items()},
            {broker_id: self._most(broker) for broker_id, broker in brokers.items()},
            # Topics are not named among the limits.
            float(self._rules.topic_cap) or inf,
        )
        for move in self._view.moves.values():
            if move.source in brokers and move.bundle in self._view.bundles:
                room.add(move.source, self.amounts(move.bundle))
        for each in decisions:
            if isinstance(each, Assign) and each.destination in brokers:
                room.add(each.destination, self.amounts(each.bundle))
        return room

    def _held(self, broker: BrokerView) -> dict[str, float]:
        held: dict[str, float] = dict(broker.partitions)
        for name, measure in MEASURES.items():
            held[name] = measure.of(broker.held) * self._scale(broker, name)
        return held

    def _most(self, broker: BrokerView) -> Amounts:
        limits = self._rules.limits.of(broker.broker_id).most
        return {
            name: limit * self._scale(broker, name)
            for name, limit in zip(MEASURES, limits, strict=True)
        }

    def _scale(self, broker: BrokerView, name: str) -> float:
        return broker.expected.size_ratio if name == _RELATIVE else 1.0


# The order of a plan's moves on a view (`core.planning.order`).


@dataclass(frozen=True, slots=True)
class PlanOrder:
    """Which moves wait for which, and how full the fullest broker becomes on the way.

    Attributes:
        waits: by move, the moves that must have ended before it starts.
        ceiling: usage before or after the plan, whichever is higher; 1.0 is full.
        highest: usage on the way in the worst case.
        forced: number of moves that exceed the ceiling, because they wait for each other.
        postponed: number of moves that are not made yet, because they would exceed a limit.
    """

    waits: Mapping[Action, tuple[Action, ...]] = field(default_factory=dict)
    ceiling: float = 0.0
    highest: float = 0.0
    forced: int = 0
    postponed: int = 0

    @property
    def text(self) -> str:
        """The way from before to after, for people."""
        if not self.forced:
            return f"{self.highest:.1%} at most, not above before or after the plan"
        return (
            f"{self.highest:.1%}, above {self.ceiling:.1%} before or after the plan: "
            f"{self.forced} moves make room for each other"
        )

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "waiting_moves": len(self.waits),
            "ceiling_ratio": self.ceiling,
            "highest_ratio": self.highest,
            "forced_moves": self.forced,
            "postponed_moves": self.postponed,
            "text": self.text,
        }


class Ordered(NamedTuple):
    """The decisions in an order for their execution, moves last.

    Attributes:
        postponed: moves that would exceed a limit on the way, as skips.
    """

    decisions: tuple[Action, ...]
    order: PlanOrder = PlanOrder()
    postponed: tuple[Skip, ...] = ()


def ordered(
    view: ClusterView, decisions: Sequence[Action], weights: UsageWeights, rules: PlacementRules
) -> Ordered:
    """Order the decisions under the limits and the topic cap of the rules."""
    moves = [each for each in decisions if isinstance(each, Transfer)]
    if not moves:
        return Ordered(tuple(decisions))
    resources = Resources.of(view, weights)
    demands = _demands(view, resources, moves)
    limits = PlanLimits(view, rules)
    steps = [
        OrderStep(
            move.source,
            move.destination,
            demand,
            limits.amounts(move.bundle),
        )
        for move, demand in zip(moves, demands, strict=True)
    ]
    room = limits.room(decisions)
    order = order_moves(_loads(view, resources), resources.capacities(view), steps, room)
    others = [each for each in decisions if not isinstance(each, Transfer)]
    postponed = tuple(_postponed(moves[number], name) for number, name in order.postponed.items())
    if order.sequence != tuple(range(len(moves))):
        moves = _refreshed(view, others, moves, order)
    by_number = dict(zip(order.sequence, moves, strict=True))
    waits: dict[Action, tuple[Action, ...]] = {
        by_number[late]: tuple(by_number[each] for each in early)
        for late, early in order.waits.items()
    }
    found = PlanOrder(waits, order.ceiling, order.highest, len(order.forced), len(postponed))
    return Ordered((*others, *moves), found, postponed)


def _postponed(move: Transfer, name: str) -> Skip:
    reason = Reason.CAPACITY if name in MEASURES else Reason.TOPIC_SPREAD
    what = f"the limit of {name}" if name in MEASURES else f"the cap of partitions of {name}"
    text = f"{move.destination} would exceed {what} until bundles that are leaving it have left"
    return Skip(str(move.bundle), reason, text)


def _demands(view: ClusterView, resources: Resources, moves: Sequence[Transfer]) -> list[Demand]:
    # Imported by the first plan, since it loads numpy.
    from broker_ctl.core.strategies.balance.demand_table import readings_of

    readings = readings_of(view, resources, [view.bundles[move.bundle] for move in moves])
    return [tuple(demand) for demand in readings.demand.tolist()]


def _loads(view: ClusterView, resources: Resources) -> dict[str, Demand]:
    """What every broker uses, corrected for what came and went since its report."""
    if resources.is_bytes:
        return {each: (b.expected.throughput_bytes,) for each, b in view.brokers.items()}
    found: dict[str, Demand] = {}
    for broker_id, broker in view.brokers.items():
        now = broker.expected.usage_ratio / broker.usage_ratio if broker.usage_ratio else 1.0
        found[broker_id] = tuple(now * used for used in resources.used(broker.load.usage))
    return found


def _refreshed(
    view: ClusterView, others: Sequence[Action], moves: Sequence[Transfer], order: Order
) -> list[Transfer]:
    """The moves in their order, with the loads before each of them."""
    load = {broker_id: broker.expected for broker_id, broker in view.brokers.items()}
    for each in others:
        if isinstance(each, Assign) and each.destination in load:
            load[each.destination] += view.bundles[each.bundle].load_vector
    found: list[Transfer] = []
    for number in order.sequence:
        move = moves[number]
        source, destination = load[move.source], load[move.destination]
        found.append(replace(move, source_before=source, destination_before=destination))
        load[move.source] = source - move.load_vector
        load[move.destination] = destination + move.load_vector
    return found
