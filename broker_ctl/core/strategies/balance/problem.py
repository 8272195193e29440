"""What the planner is given: bundles, brokers and who has what, as arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.pipeline import filter_brokers

# The partitions of each topic on each broker, as the planner's arrays.
#
# Soft: of the receivers that a move may have, those with the fewest partitions of its topics
# beyond an even share. Hard: no move brings a broker beyond the cap
# (loadBalancerTopicPartitionsPerBroker).


_Indices = NDArray[np.int32]
_Flags = NDArray[np.bool_]
_NONE: Final = np.zeros(0, np.int32)
# A bundle has at most `MAX_PARTITIONS` of a topic.
_COUNT_BITS: Final = 17
_COUNT_MASK: Final = (1 << _COUNT_BITS) - 1


@dataclass(frozen=True, slots=True, eq=False)
class TopicSpread:
    """Which partitions each bundle has. Topics are numbers here.

    Attributes:
        starts: the entries of bundle ``i`` are those from ``starts[i]`` to ``starts[i + 1]``.
        topics: topic of each entry.
        counts: its partitions in the bundle.
        fair: of each topic, the partitions on a broker that has no more than its share.
        cap: most partitions of a topic on a broker; 0: any number.
    """

    starts: _Indices
    topics: _Indices
    counts: _Indices
    fair: _Indices
    cap: int = 0

    def of(self, bundle: int) -> tuple[_Indices, _Indices]:
        """The topics of a bundle, and its partitions of each."""
        if not len(self.starts):
            return _NONE, _NONE
        entries = slice(self.starts[bundle], self.starts[bundle + 1])
        return self.topics[entries], self.counts[entries]


NO_SPREAD: Final = TopicSpread(_NONE, _NONE, _NONE, _NONE)


def spread_of(rows: list[dict[int, int]], brokers: int, topics: int, cap: int) -> TopicSpread:
    """Arrays of what each bundle has: partitions by topic."""
    if not topics:
        return NO_SPREAD
    lengths = np.fromiter(map(len, rows), np.int32, len(rows))
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    entries = int(starts[-1])
    of_topics = np.fromiter((topic for row in rows for topic in row), np.int32, entries)
    counts = np.fromiter((count for row in rows for count in row.values()), np.int32, entries)
    return TopicSpread(starts, of_topics, counts, _fair(of_topics, counts, topics, brokers), cap)


def _fair(of_topics: _Indices, counts: _Indices, topics: int, brokers: int) -> _Indices:
    sums = np.bincount(of_topics, counts, minlength=topics)
    return np.ceil(sums / max(1, brokers)).astype(np.int32)


@dataclass(slots=True, eq=False)
class SpreadCounts:
    """Partitions of each topic on each broker while moves are being planned.

    Most brokers have no partition of most topics: only the others are kept, as sorted keys of topic
    and broker, and what moves have changed since.
    """

    spread: TopicSpread
    brokers: int
    keys: NDArray[np.int64]
    sums: NDArray[np.int64]
    changed: dict[int, dict[int, int]] = field(default_factory=dict)
    by_topic: tuple[NDArray[np.int64], _Indices, _Indices] | None = None

    @classmethod
    def of(cls, spread: TopicSpread, owner: _Indices, brokers: int) -> "SpreadCounts":
        """The counts of these owners."""
        if not len(spread.topics):
            return cls(spread, brokers, np.zeros(0, np.int64), np.zeros(0, np.int64))
        owners = np.repeat(owner, np.diff(spread.starts))
        keys = spread.topics.astype(np.int64) * brokers + owners
        # Values are sorted several times as fast as their places are found.
        packed = np.sort((keys << _COUNT_BITS) | spread.counts)
        keys, counts = packed >> _COUNT_BITS, packed & _COUNT_MASK
        first = np.concatenate(([True], keys[1:] != keys[:-1]))
        places = np.flatnonzero(first)
        return cls(spread, brokers, keys[places], np.add.reduceat(counts, places, dtype=np.int64))

    def row(self, topic: int) -> NDArray[np.int64]:
        """The partitions of a topic on each broker."""
        found = np.zeros(self.brokers, np.int64)
        low, high = np.searchsorted(self.keys, (topic * self.brokers, (topic + 1) * self.brokers))
        found[self.keys[low:high] - topic * self.brokers] = self.sums[low:high]
        for broker, count in self.changed.get(topic, {}).items():
            found[broker] += count
        return found

    def has_room(self, bundle: int) -> _Flags | None:
        """Which brokers stay within the cap with one more bundle; None: all of them."""
        topics, counts = self.spread.of(bundle)
        if not self.spread.cap or not len(topics):
            return None
        able = np.ones(self.brokers, bool)
        for topic, count in zip(topics.tolist(), counts.tolist(), strict=True):
            able &= self.row(topic) + count <= self.spread.cap
        return able

    def excess_with(self, bundle: int) -> NDArray[np.int64] | None:
        """Partitions beyond an even share on each broker if it got the bundle; None: of none."""
        topics, counts = self.spread.of(bundle)
        if not len(topics):
            return None
        excess = np.zeros(self.brokers, np.int64)
        for topic, count in zip(topics.tolist(), counts.tolist(), strict=True):
            excess += np.maximum(self.row(topic) + count - self.spread.fair[topic], 0)
        return excess

    def may_return(self, back: int, receiver: int, gone: int) -> bool:
        """Whether a broker stays within the cap with ``back`` in the place of ``gone``."""
        if not self.spread.cap:
            return True
        less = dict(zip(*map(list, self.spread.of(gone)), strict=True))
        topics, counts = self.spread.of(back)
        return all(
            self.row(topic)[receiver] + count - less.get(topic, 0) <= self.spread.cap
            for topic, count in zip(topics.tolist(), counts.tolist(), strict=True)
        )

    def move(self, bundle: int, source: int, destination: int) -> None:
        """Carry the partitions of a bundle from one broker to another."""
        topics, counts = self.spread.of(bundle)
        for topic, count in zip(topics.tolist(), counts.tolist(), strict=True):
            changed = self.changed.setdefault(topic, {})
            changed[source] = changed.get(source, 0) - count
            changed[destination] = changed.get(destination, 0) + count

    def holders(self, topic: int) -> tuple[_Indices, _Indices]:
        """The bundles with partitions of a topic, and how many each has."""
        if self.by_topic is None:
            spread, entries = self.spread, len(self.spread.topics)
            packed = np.sort(spread.topics.astype(np.int64) * entries + np.arange(entries))
            topics = packed // entries
            order = packed - topics * entries
            places = np.arange(len(spread.starts) - 1, dtype=np.int32)
            # Unlike an index, `take` lets other threads run.
            found = np.take(np.repeat(places, np.diff(spread.starts)), order)
            self.by_topic = topics, found, np.take(spread.counts, order)
        topics, bundles, counts = self.by_topic
        low, high = np.searchsorted(topics, (topic, topic + 1))
        return bundles[low:high], counts[low:high]

    def violations(self) -> list[tuple[int, int]]:
        """Topic and broker of each count above the cap, before any move, the largest first."""
        if not self.spread.cap:
            return []
        places = np.flatnonzero(self.sums > self.spread.cap)
        places = places[np.argsort(-self.sums[places], kind="stable")]
        return [divmod(int(key), self.brokers) for key in self.keys[places]]


# What the planner is given: bundles, brokers and who has what, as arrays.
#
# All resources are in units of their own (percent of a core, Kbit/s): a bundle's demand is the
# same wherever it lives, and a broker's usage is what its bundles demand over what it has. So
# brokers of different sizes are compared as they should be.


Indices = NDArray[np.int32]
Flags = NDArray[np.bool_]
# Less than this is rounding.
NOTHING: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class BalanceProblem:
    """One moment. Bundles and brokers are numbers here, in the order of their ids.

    Attributes:
        demand: of each bundle, shape (bundles, resources).
        capacity: of each broker, shape (brokers, resources); infinite where nothing limits it.
        owner: broker of each bundle, shape (bundles,).
        is_movable: whether a bundle may be moved now, shape (bundles,).
        is_receiving: whether a broker may be given anything now, shape (brokers,).
        is_giving: whether a broker gives when it is too full, shape (brokers,).
        is_counted: whether a broker is there to carry a share, shape (brokers,); one that is on
            its way down is not.
        base: what a broker uses for no bundle in particular, shape (brokers, resources).
        kind: which row of ``allowed`` says where a bundle may live, shape (bundles,).
        allowed: shape (kinds, brokers).
        sharing: the brokers over which the mean of a kind is taken, shape (kinds, brokers).
        avoid: the broker that a bundle must not come back to, or -1, shape (bundles,).
        takes: what a bundle counts against each hard limit, shape (bundles, limits).
        held: what each broker has of it, shape (brokers, limits).
        most: what no move brings a broker beyond, shape (brokers, limits); infinite: no limit.
        spread: the partitions of topics in each bundle.
    """

    demand: Floats
    capacity: Floats
    owner: Indices
    is_movable: Flags
    is_receiving: Flags
    is_giving: Flags
    is_counted: Flags
    base: Floats
    kind: Indices
    allowed: Flags
    sharing: Flags
    avoid: Indices
    takes: Floats
    held: Floats
    most: Floats
    spread: TopicSpread = NO_SPREAD

    @classmethod
    def plain(cls, demand: Floats, capacity: Floats, owner: Indices) -> "BalanceProblem":
        """Every bundle may go to every broker."""
        bundles, brokers = len(demand), len(capacity)
        return cls(
            demand=demand,
            capacity=capacity,
            owner=owner,
            is_movable=np.ones(bundles, bool),
            is_receiving=np.ones(brokers, bool),
            is_giving=np.ones(brokers, bool),
            is_counted=np.ones(brokers, bool),
            base=np.zeros_like(capacity),
            kind=np.zeros(bundles, np.int32),
            allowed=np.ones((1, brokers), bool),
            sharing=np.ones((1, brokers), bool),
            avoid=np.full(bundles, -1, np.int32),
            takes=np.zeros((bundles, 0)),
            held=np.zeros((brokers, 0)),
            most=np.zeros((brokers, 0)),
        )

    def may_go(self, bundle: int, destination: int) -> bool:
        """Whether a bundle may live on a broker that is receiving."""
        is_allowed = bool(self.allowed[self.kind[bundle], destination])
        return is_allowed and int(self.avoid[bundle]) != destination


@dataclass(slots=True, eq=False)
class Allocation:
    """Load of each broker while moves are being planned.

    Attributes:
        load: shape (brokers, resources).
        usage: of each broker, its fullest resource, shape (brokers,); 1.0 is full.
        held: of each hard limit, shape (brokers, limits).
        spread: partitions of each topic on each broker.
    """

    problem: BalanceProblem
    load: Floats
    usage: Floats = field(init=False)
    held: Floats = field(init=False)
    spread: SpreadCounts = field(init=False)

    def __post_init__(self) -> None:
        """Usage follows from load."""
        self.usage = usage_of(self.load, self.problem.capacity)
        self.held = self.problem.held.copy()
        problem = self.problem
        self.spread = SpreadCounts.of(problem.spread, problem.owner, len(problem.capacity))

    def with_more(self, demand: Floats) -> Floats:
        """Usage of every broker if it got ``demand`` on top, shape (brokers,)."""
        return usage_of(self.load + demand, self.problem.capacity)

    def without(self, broker: int, demand: Floats) -> float:
        """Usage of one broker if it lost ``demand``."""
        return float(((self.load[broker] - demand) / self.problem.capacity[broker]).max())

    def has_room(self, bundle: int) -> Flags:
        """Which brokers stay within their hard limits with one more bundle, shape (brokers,)."""
        problem = self.problem
        able = within(self.held + problem.takes[bundle], problem.most)
        spread = self.spread.has_room(bundle)
        return able if spread is None else able & spread

    def receiver(self, bundle: int, source: int, target: float) -> tuple[int, float] | None:
        """The broker that a bundle goes to, and its usage then; None: all would exceed ``target``.

        Of several, those with the fewest partitions of its topics beyond an even share; of these
        the one that is least full then.
        """
        problem = self.problem
        with_it = self.with_more(problem.demand[bundle])
        able = problem.is_receiving & problem.allowed[problem.kind[bundle]]
        with_it[~(able & self.has_room(bundle))] = np.inf
        with_it[source] = np.inf
        if problem.avoid[bundle] >= 0:
            with_it[problem.avoid[bundle]] = np.inf
        with_it[with_it > target + NOTHING] = np.inf
        excess = self.spread.excess_with(bundle)
        if excess is not None and np.isfinite(with_it).any():
            with_it[excess > excess[np.isfinite(with_it)].min()] = np.inf
        destination = int(with_it.argmin())
        after = float(with_it[destination])
        return (destination, after) if np.isfinite(after) else None

    def move(self, bundle: int, source: int, destination: int) -> None:
        """Carry a bundle from one broker to another."""
        demand, taken = self.problem.demand[bundle], self.problem.takes[bundle]
        self.held[source] -= taken
        self.held[destination] += taken
        self.spread.move(bundle, source, destination)
        self.load[source] -= demand
        self.load[destination] += demand
        for broker in (source, destination):
            self.usage[broker] = (self.load[broker] / self.problem.capacity[broker]).max()

    @property
    def mean(self) -> float:
        """Mean usage of the brokers that count; 0 where none does."""
        counted = self.usage[self.problem.is_counted]
        return float(counted.mean()) if counted.size else 0.0

    def means(self) -> Floats:
        """Mean usage of the brokers that may carry bundles of each kind, shape (kinds,)."""
        rows = self.problem.sharing & self.problem.is_counted
        found = [self.usage[each].mean() if each.any() else 0.0 for each in rows]
        return np.array(found, np.float64)


def within(held: Floats, most: Floats) -> Flags:
    """Whether each row is within its limits; rounding does not decide."""
    able: Flags = np.logical_and.reduce(held <= most * (1 + 1e-9), axis=-1)
    return able


def usage_of(load: Floats, capacity: Floats) -> Floats:
    """The fullest resource of each broker, shape (brokers,)."""
    usage: Floats = (load / capacity).max(axis=-1)
    return usage


# Which brokers may carry a bundle: bundles of the same kind may live on the same brokers.


# Of each broker: the brokers that may carry each kind of bundle that it carries.
Peers = Mapping[str, set[frozenset[str]]]


class Kinds:
    """Feasible brokers of a bundle: the same for all bundles of a namespace."""

    def __init__(
        self,
        view: ClusterView,
        numbers: Mapping[str, int],
        able: tuple[str, ...],
        silent_s: float,
    ) -> None:
        self._view = view
        self._numbers = numbers
        self._able = able
        self._rules = PlacementRules(report_ttl_s=silent_s)
        # The last one: bundles come by namespace.
        self._namespace: Namespace | None = None
        self._number = -1
        self._of: dict[Namespace, int] = {}
        self._rows: list[Flags] = []
        self._known: dict[tuple[str, ...], int] = {}

    def of(self, bundle: Bundle) -> int:
        """The row for a bundle."""
        namespace = bundle.namespace
        if namespace is not self._namespace:
            if namespace not in self._of:
                self._of[namespace] = self._row(bundle)
            self._namespace, self._number = namespace, self._of[namespace]
        return self._number

    def _row(self, bundle: Bundle) -> int:
        grouped = bundle.namespace in self._view.constraints.group_of
        # Where a bundle of a group may go depends on the group's others: placement decides.
        feasible = () if grouped else self._feasible_brokers(bundle)
        if feasible not in self._known:
            row = np.zeros(len(self._numbers), bool)
            row[[self._numbers[each] for each in feasible]] = True
            self._known[feasible] = len(self._rows)
            self._rows.append(row)
        return self._known[feasible]

    def _feasible_brokers(self, bundle: Bundle) -> tuple[str, ...]:
        return filter_brokers(self._view, bundle, self._able, self._rules).feasible

    def table(self) -> Flags:
        """Shape (kinds, brokers)."""
        return np.array(self._rows, bool).reshape(len(self._rows), len(self._numbers))


def sharing_of(allowed: Flags, counted: Flags, reporting: Flags) -> Flags:
    """The brokers over which the mean of each kind is taken, shape (kinds, brokers).

    A broker that may not carry a bundle does not make room for it. One without a recent report
    only receives nothing for now. A kind that may go nowhere is compared with all brokers.
    """
    sharing: Flags = counted & (allowed | ~reporting)
    sharing[~sharing.any(axis=1)] = counted
    return sharing


def peers_of(
    view: ClusterView, homes: Mapping[Bundle, str], counted: Sequence[str], silent_s: float
) -> Peers:
    """The groups of each broker; of none where no policy divides the cluster."""
    if not view.constraints.isolation:
        return {}
    able, rules = view.receivers(silent_s), PlacementRules(report_ttl_s=silent_s)
    # A broker without a recent report only receives nothing for now.
    silent = frozenset(counted) - set(able)
    group_of: dict[Namespace, frozenset[str]] = {}
    found: dict[str, set[frozenset[str]]] = {}
    for bundle, broker_id in homes.items():
        namespace = bundle.namespace
        if namespace not in group_of:
            grouped = namespace in view.constraints.group_of
            allowed = () if grouped else filter_brokers(view, bundle, able, rules).feasible
            group = (silent | set(allowed)) & set(counted)
            group_of[namespace] = frozenset(group or counted)
        if broker_id in group_of[namespace]:
            found.setdefault(broker_id, set()).add(group_of[namespace])
    return found
