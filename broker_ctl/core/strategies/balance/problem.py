"""What the planner is given: bundles, brokers and who has what, as arrays.

All resources are in units of their own (percent of a core, Kbit/s): a bundle's demand is the same
wherever it lives, and a broker's usage is what its bundles demand over what it has. So brokers of
different sizes are compared as they should be.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.strategies.balance.topic_spread import NO_SPREAD, SpreadCounts, TopicSpread

Floats = NDArray[np.float64]
Indices = NDArray[np.int32]
Flags = NDArray[np.bool_]
# Less than this is rounding.
NOTHING: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
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
    def plain(cls, demand: Floats, capacity: Floats, owner: Indices) -> "Problem":
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

    problem: Problem
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
