"""Limits of brokers and caps of topics: who is beyond them, and what relieves them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

import numpy as np

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.cluster.view import BrokerView, BundleView
from broker_ctl.core.model.load import LoadVector
from broker_ctl.core.rules.leader_rules import Band
from broker_ctl.core.rules.limits import MEASURES, BrokerLimits
from broker_ctl.core.strategies.balance.planner import Move, group_by_owner, load_of, make_move
from broker_ctl.core.strategies.balance.problem import (
    NOTHING,
    Allocation,
    BalanceProblem,
    Indices,
    usage_of,
    within,
)

# The limits of brokers as the planner's columns (`core/rules/limits.py`).


_USAGE: Final = list(MEASURES).index("usage")


def bundle_columns(bundles: Sequence[BundleView], limits: BrokerLimits) -> Floats:
    """What each bundle counts against each limit, (bundles, limits); usage in mean brokers."""
    if not limits:
        return np.zeros((len(bundles), 0))
    return _columns([bundle_view.load_vector for bundle_view in bundles])


def broker_columns(brokers: Sequence[BrokerView], limits: BrokerLimits) -> tuple[Floats, Floats]:
    """What each broker has of each limit, and the most; usage in mean brokers."""
    if not limits:
        return np.zeros((len(brokers), 0)), np.zeros((len(brokers), 0))
    held = _columns([replace(each.held, size_ratio=1.0) for each in brokers])
    most = np.array([limits.of(each.broker_id).most for each in brokers], np.float64)
    sizes = np.array([each.expected.size_ratio for each in brokers], np.float64)
    held[:, _USAGE] *= sizes
    most[:, _USAGE] *= sizes
    return held, most


def _columns(loads: Sequence[LoadVector]) -> Floats:
    rows = [[measure.of(load) for measure in MEASURES.values()] for load in loads]
    return np.array(rows, np.float64).reshape(len(loads), len(MEASURES))


# Moves of brokers that are beyond a hard limit, or a topic's cap, where others have room.
#
# A limit is not a matter of balance: a broker gives for it even if it is less full than others.
# What it gives goes where it breaks no limit and makes no broker too full, so that the balance
# does not send it on.


# How many bundles of a broker are tried for each that goes.
_ATTEMPTS: Final = 24


@dataclass(slots=True)
class HardRelief:
    """What was found.

    Attributes:
        moves: in the order in which they must be made.
        stuck: brokers that stay beyond a limit: nothing of theirs has room elsewhere.
    """

    moves: list[Move] = field(default_factory=list)
    stuck: list[int] = field(default_factory=list)


def relieve_hard(problem: BalanceProblem, band: Band, limit: int) -> HardRelief:
    """Plan moves until no giving broker is beyond a limit, or none can be helped."""
    allocation = Allocation(problem, load_of(problem))
    work = _Work(allocation, band.trigger(allocation.mean), limit, group_by_owner(problem).of)
    beyond = np.flatnonzero(~within(problem.held, problem.most) & problem.is_giving)
    for source in beyond.tolist():
        work.relieve_limits(source)
    for topic, source in allocation.spread.violations():
        if problem.is_giving[source]:
            work.relieve_topic(topic, source)
    return work.result()


@dataclass(slots=True)
class _Work:
    allocation: Allocation
    trigger: float
    limit: int
    movable: Callable[[int], Indices]
    moved: set[int] = field(default_factory=set)
    found: HardRelief = field(default_factory=HardRelief)

    def relieve_limits(self, source: int) -> None:
        """Give until each limit is kept, the one that is exceeded most first."""
        problem, held = self.allocation.problem, self.allocation.held
        bundles, most = self.movable(source), problem.most[source]
        while not within(held[source], most):
            column = int((held[source] / np.maximum(most, NOTHING)).argmax())
            takes, excess = problem.takes[bundles, column], held[source, column] - most[column]
            if not self._give(source, bundles, takes, float(excess)):
                return

    def relieve_topic(self, topic: int, source: int) -> None:
        """Give until the broker has no more partitions of the topic than the cap."""
        problem, counts = self.allocation.problem, self.allocation.spread
        holders, partitions = counts.holders(topic)
        able = (problem.owner[holders] == source) & problem.is_movable[holders]
        bundles, takes = holders[able], partitions[able].astype(np.float64)
        while (excess := float(counts.row(topic)[source] - counts.spread.cap)) > 0:
            if not self._give(source, bundles, takes, excess):
                return

    def result(self) -> HardRelief:
        """What was found; what one kind of limit left stuck, another one may have helped."""
        counts, held, most = (
            self.allocation.spread,
            self.allocation.held,
            self.allocation.problem.most,
        )
        above = {
            broker
            for topic, broker in counts.violations()
            if counts.row(topic)[broker] > counts.spread.cap
        }
        self.found.stuck = [
            each for each in self.found.stuck if each in above or not within(held[each], most[each])
        ]
        return self.found

    def _give(self, source: int, bundles: Indices, takes: Floats, excess: float) -> bool:
        """Move the bundle that removes the excess alone, or the largest that has room."""
        if len(self.found.moves) >= self.limit:
            return False
        problem = self.allocation.problem
        # Of equals the one that moves the least load.
        sizes = usage_of(problem.demand[bundles], problem.capacity[source])
        order = np.lexsort((sizes, takes))
        enough = int(np.searchsorted(takes[order], excess * (1 - NOTHING)))
        tried = [*order[enough:].tolist(), *order[:enough][::-1].tolist()]
        candidates = (int(bundles[place]) for place in tried if takes[place] > 0)
        left = (bundle for bundle in candidates if bundle not in self.moved)
        for bundle in islice(left, _ATTEMPTS):
            if self._move(source, bundle):
                return True
        if source not in self.found.stuck:
            self.found.stuck.append(source)
        return False

    def _move(self, source: int, bundle: int) -> bool:
        found = self.allocation.receiver(bundle, source, self.trigger)
        if found is None:
            return False
        self.found.moves.append(make_move(self.allocation, bundle, source, found[0]))
        self.moved.add(bundle)
        return True
