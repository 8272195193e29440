"""The planner: the fewest moves that bring every broker that is too full back into a band."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.rules.leader_rules import Band
from broker_ctl.core.strategies.balance.problem import (
    NOTHING,
    Allocation,
    BalanceProblem,
    Flags,
    Indices,
    usage_of,
    within,
)

# How far the planner has come: load, what may still go, and which broker is too full by now.


# Bundles that are added up in one go: no other thread runs meanwhile.
_AT_ONCE: Final = 1 << 17


def load_of(problem: BalanceProblem) -> Floats:
    """Of each broker, shape (brokers, resources)."""
    load = problem.base.copy()
    for first in range(0, len(problem.owner), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        owner, demand = problem.owner[some], problem.demand[some]
        for resource in range(load.shape[1]):
            load[:, resource] += np.bincount(owner, demand[:, resource], minlength=len(load))
    return load


@dataclass(frozen=True, slots=True, eq=False)
class MovableBundles:
    """The movable bundles of every broker: those of one lie next to each other."""

    bundles: Indices
    starts: Indices

    def of(self, broker: int) -> Indices:
        """Those of one broker, by number."""
        return self.bundles[self.starts[broker] : self.starts[broker + 1]]


def group_by_owner(problem: BalanceProblem) -> MovableBundles:
    """Sorted by owner with as few passes over a million bundles as there can be."""
    brokers = len(problem.capacity)
    bundles = np.flatnonzero(problem.is_movable).astype(np.int32)
    # Numbers of brokers fit into 16 bits nearly always: then the sort is linear.
    width = np.uint16 if brokers <= 1 << 16 else np.int32
    owners = np.take(problem.owner, bundles).astype(width)
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners, minlength=brokers)
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    # Unlike an index, `take` lets other threads run.
    return MovableBundles(np.take(bundles, order), starts)


def carried_of(problem: BalanceProblem) -> Flags:
    """Which kinds each broker carries and may carry, shape (kinds, brokers).

    What is where it may not be is not a matter of balance. A single kind that may go everywhere
    counts for all brokers, whether they carry anything or not.
    """
    kinds, brokers = problem.allowed.shape
    if kinds <= 1 and (problem.sharing | ~problem.is_counted).all():
        return np.ones((kinds, brokers), bool)
    carried = np.zeros((kinds, brokers), bool)
    for first in range(0, len(problem.owner), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        carried[problem.kind[some], problem.owner[some]] = True
    return carried & problem.sharing


@dataclass(slots=True)
class Progress:
    """What the moves have come to so far; ``carried`` as `carried_of`."""

    allocation: Allocation
    band: Band
    holdings: MovableBundles
    carried: Flags
    moved: set[int] = field(default_factory=set)

    def note(self, made: Iterable["Move"]) -> None:
        """What has moved stays, and counts where it is now."""
        kind = self.allocation.problem.kind
        for move in made:
            self.moved.add(move.bundle)
            self.carried[kind[move.bundle], move.destination] = True

    def mean_of(self, means: Floats) -> Floats:
        """The mean that each broker is compared with: the smallest of the kinds it carries."""
        found = np.where(self.carried, means[:, np.newaxis], np.inf).min(axis=0, initial=np.inf)
        return np.where(np.isfinite(found), found, self.allocation.mean)

    def is_too_full(self, means: Floats) -> Flags:
        """Which brokers are above the band, shape (brokers,)."""
        mean, band = self.mean_of(means), self.band
        trigger = np.maximum(band.high * mean, mean + band.least)
        full: Flags = self.allocation.usage > trigger + NOTHING
        return full

    def too_full(self) -> tuple[int, ...]:
        """The brokers above the band that count and may give."""
        problem = self.allocation.problem
        able = problem.is_counted & problem.is_giving
        full = self.is_too_full(self.allocation.means())
        return tuple(int(each) for each in np.flatnonzero(full & able))

    def kinds_of(self, broker: int, means: Floats) -> list[int | None]:
        """The kinds that a broker may be relieved of, the smallest mean first; None: all alike."""
        if len(means) <= 1:
            return [None] if not len(means) or self.carried[0, broker] else []
        kinds = np.flatnonzero(self.carried[:, broker])
        return [int(each) for each in kinds[np.argsort(means[kinds], kind="stable")]]

    def fullest(self, broker: int) -> int:
        """Which resource makes the broker as full as it is."""
        allocation = self.allocation
        return int((allocation.load[broker] / allocation.problem.capacity[broker]).argmax())

    def sorted_bundles(self, broker: int, kind: int | None = None) -> tuple[Indices, Floats]:
        """What a broker may give, the smallest first, and how much each takes of it."""
        bundles = self.holdings.of(broker)
        if kind is not None:
            bundles = bundles[self.allocation.problem.kind[bundles] == kind]
        if self.moved:
            keep = [each for each in bundles.tolist() if each not in self.moved]
            bundles = np.array(keep, np.int32)
        problem, fullest = self.allocation.problem, self.fullest(broker)
        sizes = problem.demand[bundles, fullest] / problem.capacity[broker, fullest]
        # Equal sizes in the order of the bundles: the sort must not depend on anything else.
        order = np.argsort(sizes, kind="stable")
        return bundles[order], sizes[order]


# The planner: the fewest moves that bring every broker that is too full back into a band.
#
# One objective: the brokers' usages, sorted from the fullest down and compared lexicographically.
# A move must make the fuller of its two brokers less full, so each move makes the objective
# smaller, and no sequence of moves returns to its start.
#
# The mean is that of the brokers that may carry the bundle in question. A broker above ``high``
# times the mean sheds until it is at ``low``: the smallest bundle that achieves this alone, else
# the largest that another broker has room for, else an exchange of a large bundle for a smaller
# one; if it is still above ``high``, a bundle far larger than needed. The receiver is the broker
# that would be the least full; none is filled beyond ``low``. If each move has a price, the best
# strategy is to do nothing inside a band: start above one level, stop below another (docs:
# imbalance-bounds, planner-sources).


# How many bundles are tried, one size smaller each, before an exchange is; and how many receivers
# and bundles are tried for one.
_ATTEMPTS: Final = 12
_COLDEST: Final = 3
_LARGEST: Final = 24
# A bundle may be at most this multiple of what has to go.
_OVERSHOOT: Final = 1.25


class Move(NamedTuple):
    """One bundle from one broker to another, by number, with both usages before and after."""

    bundle: int
    source: int
    destination: int
    source_before: float
    source_after: float
    destination_before: float
    destination_after: float


@dataclass(frozen=True, slots=True)
class Relief:
    """What the planner found.

    Attributes:
        moves: in the order in which they must be made.
        mean: mean usage before any of them.
        before, after: max over mean usage.
        mean_of: mean usage, before any of them, of the brokers that may carry what each broker
            carries.
        stuck: brokers that stay above ``high``, since nothing of theirs fits anywhere, with their
            usage.
    """

    moves: tuple[Move, ...]
    mean: float
    before: float
    after: float
    stuck: tuple[tuple[int, float], ...]
    mean_of: tuple[float, ...] = field(default=(), compare=False)


def relieve(problem: BalanceProblem, band: Band, limit: int | None = None) -> Relief:
    """Plan moves until no broker is too full, or none that is can be helped.

    Args:
        problem: the moment.
        band: when to act, and how far.
        limit: most moves; None: as many as it takes.
    """
    allocation = Allocation(problem, load_of(problem))
    mean, before = allocation.mean, _max_over_mean(allocation)
    work = Progress(allocation, band, group_by_owner(problem), carried_of(problem))
    mean_of = work.mean_of(allocation.means())
    moves: list[Move] = []
    while limit is None or len(moves) < limit:
        room = None if limit is None else limit - len(moves)
        made = _round(work, room)
        moves += made
        if not made:
            break
    stuck = tuple((broker, float(allocation.usage[broker])) for broker in work.too_full())
    after = _max_over_mean(allocation)
    return Relief(tuple(moves), mean, before, after, stuck, tuple(mean_of.tolist()))


def first_moves(problem: BalanceProblem, band: Band, broker: int) -> list[Move]:
    """The moves that would be made first if only this broker gave; empty: none helps."""
    allocation = Allocation(problem, load_of(problem))
    work = Progress(allocation, band, group_by_owner(problem), carried_of(problem))
    means = allocation.means()
    if not problem.is_counted[broker] or not work.is_too_full(means)[broker]:
        return []
    return _relieve_one(work, broker, means, 2)


def _round(work: Progress, limit: int | None) -> list[Move]:
    """Relieve each broker that is too full once, the fullest first."""
    allocation = work.allocation
    moves: list[Move] = []
    means = allocation.means()
    waiting: list[tuple[float, int]] = []
    for broker in work.too_full():
        heappush(waiting, (-float(allocation.usage[broker]), broker))
    while waiting and (limit is None or len(moves) < limit):
        _, source = heappop(waiting)
        room = None if limit is None else limit - len(moves)
        moves += _relieve_one(work, source, means, room)
    return moves


@dataclass(slots=True, eq=False)
class _Giver:
    """A broker that is to come down to ``target``, and what it may still give."""

    work: Progress
    broker: int
    kind: int | None
    trigger: float
    target: float
    fullest: int = -1
    bundles: Indices = field(init=False)
    sizes: Floats = field(init=False)

    @property
    def usage(self) -> float:
        return float(self.work.allocation.usage[self.broker])

    @property
    def is_too_full(self) -> bool:
        return self.usage > self.trigger + NOTHING

    @property
    def receivers(self) -> Flags:
        """The brokers that may be given something of this kind."""
        problem = self.work.allocation.problem
        if self.kind is None:
            return problem.is_receiving
        able: Flags = problem.is_receiving & problem.allowed[self.kind]
        return able

    def refresh(self) -> None:
        """Forget what has gone; what counts is what the fullest resource is now."""
        fullest = self.work.fullest(self.broker)
        if fullest != self.fullest:
            self.fullest = fullest
            self.bundles, self.sizes = self.work.sorted_bundles(self.broker, self.kind)

    def without(self, moves: list[Move]) -> None:
        """Some of it has gone."""
        for move in moves:
            left = self.bundles != move.bundle
            self.bundles, self.sizes = self.bundles[left], self.sizes[left]


def _relieve_one(work: Progress, source: int, means: Floats, limit: int | None) -> list[Move]:
    moves: list[Move] = []
    for kind in work.kinds_of(source, means):
        mean = float(means[kind or 0]) if len(means) else work.allocation.mean
        giver = _Giver(work, source, kind, work.band.trigger(mean), work.band.target(mean))
        if giver.is_too_full:
            moves += _relieve_kind(giver, None if limit is None else limit - len(moves))
    return moves


def _relieve_kind(giver: _Giver, limit: int | None) -> list[Move]:
    moves: list[Move] = []
    while giver.usage > giver.target + NOTHING and (limit is None or len(moves) < limit):
        giver.refresh()
        made = _step(giver, None if limit is None else limit - len(moves))
        if not made:
            break
        moves += made
        giver.work.note(made)
        giver.without(made)
    return moves


def _step(giver: _Giver, room: int | None) -> list[Move]:
    """The next move, or the two of an exchange where there is ``room`` for both."""
    found = _single(giver, _OVERSHOOT)
    if found:
        return [found]
    exchanged = [] if room == 1 else _exchange(giver)
    if exchanged:
        return exchanged
    # Far less than is aimed at is better than too much, and no better than what is tolerated.
    found = _single(giver, np.inf) if giver.is_too_full else None
    return [found] if found else []


def _single(giver: _Giver, overshoot: float) -> Move | None:
    """One bundle that goes: the one nearest to what is too much, or the next smaller that fits.

    Not one that is above ``overshoot`` times that: what goes beyond need is moved for nothing.
    """
    sizes, need = giver.sizes, giver.usage - giver.target
    most = min(need * overshoot, _most_room(giver)) + NOTHING
    top = int(np.searchsorted(sizes, most, side="right")) - 1
    last = top
    enough = int(np.searchsorted(sizes, need - NOTHING))
    if 0 <= enough <= top:
        top = enough
    for place in range(top, max(-1, top - _ATTEMPTS), -1):
        if sizes[place] <= NOTHING:
            break
        move = _try(giver, int(giver.bundles[place]))
        if move is not None:
            return move
    # Where anything is better than nothing, also one that is larger than need be.
    if np.isinf(overshoot):
        for place in range(top + 1, min(last, top + _ATTEMPTS) + 1):
            move = _try(giver, int(giver.bundles[place]))
            if move is not None:
                return move
    return None


def _most_room(giver: _Giver) -> float:
    """What another broker can take at most, as a part of the giver's fullest resource."""
    problem, usage = giver.work.allocation.problem, giver.work.allocation.usage
    others = giver.receivers & (usage < giver.target)
    others[giver.broker] = False
    capacity = problem.capacity[:, giver.fullest]
    room = (giver.target - usage[others]) * (capacity[others] / capacity[giver.broker])
    return float(room.max()) if room.size else 0.0


def _try(giver: _Giver, bundle: int) -> Move | None:
    """The move to the best receiver that ends at the target or below, if it is not uphill."""
    allocation, source = giver.work.allocation, giver.broker
    found = allocation.receiver(bundle, source, giver.target)
    if found is None:
        return None
    destination, after = found
    # A broker that is as full in another resource stays as full as it was.
    left = allocation.without(source, allocation.problem.demand[bundle])
    if max(after, left) >= float(allocation.usage[source]) - NOTHING:
        return None
    return make_move(allocation, bundle, source, destination)


def _exchange(giver: _Giver) -> list[Move]:
    """A large bundle for a smaller one of a cold broker, where no single bundle has room."""
    allocation, source = giver.work.allocation, giver.broker
    problem = allocation.problem
    if not problem.is_receiving[source]:
        return []
    cold = np.where(giver.receivers, allocation.usage, np.inf)
    cold[source] = np.inf
    for destination in np.argsort(cold, kind="stable")[:_COLDEST].tolist():
        if not np.isfinite(cold[destination]):
            break
        theirs, _ = giver.work.sorted_bundles(destination)
        pair = _Pair(allocation, source, destination, theirs, giver.target)
        for bundle in giver.bundles[::-1][:_LARGEST].tolist():
            back = pair.partner(bundle)
            if back is not None:
                return [
                    make_move(allocation, bundle, source, destination),
                    make_move(allocation, back, destination, source),
                ]
    return []


class _Pair(NamedTuple):
    """Two brokers that may exchange bundles; ``theirs`` are the destination's, smallest first."""

    allocation: Allocation
    source: int
    destination: int
    theirs: Indices
    target: float

    def partner(self, bundle: int) -> int | None:
        """The bundle that comes back for ``bundle``: the smallest one that leaves both in order.

        The first leg alone must leave the pair better than it was: the second may fail.
        """
        problem, load = self.allocation.problem, self.allocation.load
        source, destination = self.source, self.destination
        demand, before = problem.demand[bundle], float(self.allocation.usage[source])
        there = load[destination] + demand
        peak = float((there / problem.capacity[destination]).max())
        is_uphill = peak >= before - NOTHING
        if is_uphill or not problem.may_go(bundle, destination) or not len(self.theirs):
            return None
        if not self.allocation.has_room(bundle)[destination]:
            return None
        held = self.allocation.held[source] - problem.takes[bundle]
        back = problem.demand[self.theirs]
        theirs_after = usage_of(there - back, problem.capacity[destination])
        ours_after = usage_of(load[source] - demand + back, problem.capacity[source])
        good = (
            (theirs_after <= self.target + NOTHING)
            # A second leg that goes uphill from where the first one leads would be refused.
            & (np.maximum(ours_after, theirs_after) < peak - NOTHING)
            # Two disturbances must be worth half of what is too much.
            & (ours_after <= (before + self.target) / 2)
            & within(held + problem.takes[self.theirs], problem.most[source])
            & problem.allowed[problem.kind[self.theirs], source]
            & (problem.avoid[self.theirs] != source)
        )
        candidates = self.theirs[good].tolist()
        spread = self.allocation.spread
        return next((each for each in candidates if spread.may_return(each, source, bundle)), None)


def make_move(allocation: Allocation, bundle: int, source: int, destination: int) -> Move:
    """Carry a bundle to another broker."""
    before = float(allocation.usage[source]), float(allocation.usage[destination])
    allocation.move(bundle, source, destination)
    after = float(allocation.usage[source]), float(allocation.usage[destination])
    return Move(bundle, source, destination, before[0], after[0], before[1], after[1])


def _max_over_mean(allocation: Allocation) -> float:
    counted = allocation.usage[allocation.problem.is_counted]
    mean = allocation.mean
    return float(counted.max()) / mean if counted.size and mean > 0 else 1.0


def apply_moves(problem: BalanceProblem, moves: tuple[Move, ...]) -> BalanceProblem:
    """The problem once the moves have been made."""
    owner, held = problem.owner.copy(), problem.held.copy()
    for move in moves:
        held[owner[move.bundle]] -= problem.takes[move.bundle]
        owner[move.bundle] = move.destination
        held[move.destination] += problem.takes[move.bundle]
    return replace(problem, owner=owner, held=held)
