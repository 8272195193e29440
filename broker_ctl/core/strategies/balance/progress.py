"""How far the planner has come: load, what may still go, and which broker is too full by now."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from broker_ctl.core.rules.balance import Band
from broker_ctl.core.strategies.balance.problem import (
    NOTHING,
    Allocation,
    Flags,
    Floats,
    Indices,
    Problem,
)

if TYPE_CHECKING:
    from broker_ctl.core.strategies.balance.planner import Move

# Bundles that are added up in one go: no other thread runs meanwhile.
_AT_ONCE: Final = 1 << 17


def load_of(problem: Problem) -> Floats:
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


def group_by_owner(problem: Problem) -> MovableBundles:
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


def carried_of(problem: Problem) -> Flags:
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
