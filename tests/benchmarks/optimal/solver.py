"""HiGHS: the placements of whole bundles that no other beats.

Two programs over one binary variable for each bundle and broker: the least maximum of the brokers'
usages, and the least load that moves for a given maximum. A third one, over a day, is in `day`.
"""

import os
import sys
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.strategies.balance.problem import BalanceProblem, Indices

# What is that near to its bound counts as solved.
PRECISION: Final = 1e-3
# Solvers keep constraints up to a tolerance.
_TOLERANCE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Optimum:
    """Of one program.

    Attributes:
        value: of the best solution that was found.
        bound: no solution is below it.
    """

    value: float
    bound: float

    @property
    def is_proven(self) -> bool:
        """Whether nothing better is left to find."""
        return self.value - self.bound <= PRECISION * max(abs(self.value), PRECISION)


@dataclass(slots=True)
class Rows:
    """Constraints of a program, row by row."""

    starts: list[int] = field(default_factory=list)
    columns: list[Indices] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    count: int = 0

    def add(self, columns: Indices, values: Floats, lower: float, upper: float) -> None:
        """``lower`` <= the sum of ``values`` times ``columns`` <= ``upper``."""
        self.starts.append(self.count)
        self.columns.append(columns)
        self.values.append(values)
        self.lower.append(lower)
        self.upper.append(upper)
        self.count += len(columns)

    def add_many(
        self, columns: NDArray[np.int32], values: Floats, lower: float, upper: Floats
    ) -> None:
        """Likewise for rows of one length: shape (rows, columns), each with its ``upper``."""
        height, width = columns.shape
        self.starts += range(self.count, self.count + height * width, width)
        self.columns.append(columns.ravel())
        self.values.append(np.broadcast_to(values, columns.shape).ravel())
        self.lower += [lower] * height
        self.upper += upper.tolist()
        self.count += height * width


class _Limits(NamedTuple):
    """How many variables are binary, and when a search ends: in time, or at a value."""

    binary: int
    seconds: float
    enough: float = -highspy.kHighsInf


def least_maximum(problem: BalanceProblem, ours: Indices, seconds: float) -> Optimum:
    """The least usage of the fullest broker; ``ours`` is a placement to begin with."""
    bundles, brokers = len(problem.demand), len(problem.capacity)
    binary = bundles * brokers
    rows = _placements(bundles, brokers)
    for broker in range(brokers):
        for resource in range(problem.demand.shape[1]):
            load = problem.demand[:, resource] / problem.capacity[broker, resource]
            columns = np.append(_columns_of(broker, bundles, brokers), binary).astype(np.int32)
            rows.add(columns, np.append(load, -1.0), -highspy.kHighsInf, 0.0)
    costs = np.zeros(binary + 1)
    costs[binary] = 1.0
    begin = np.append(_choice(ours, brokers), fullest(problem, ours))
    # No broker is emptier than all of them together, nor than the largest bundle makes it.
    floor = max(
        float((problem.demand.sum(axis=0) / problem.capacity.sum(axis=0)).max()),
        float((problem.demand / problem.capacity.max(axis=0)).max()),
    )
    found = _solved(costs, rows, begin, _Limits(binary, seconds, floor * (1 + PRECISION)))
    return Optimum(found.value, max(found.bound, floor))


def least_moved(
    problem: BalanceProblem, weight: Floats, most: float, ours: Indices, seconds: float
) -> Optimum:
    """The least weight that moves so that no broker is above ``most``, which ``ours`` keeps."""
    bundles, brokers = len(problem.demand), len(problem.capacity)
    rows = _placements(bundles, brokers)
    for broker in range(brokers):
        for resource in range(problem.demand.shape[1]):
            load = problem.demand[:, resource] / problem.capacity[broker, resource]
            columns = _columns_of(broker, bundles, brokers)
            rows.add(columns, load, -highspy.kHighsInf, most + _TOLERANCE)
    costs = np.repeat(weight, brokers) * (1.0 - _choice(problem.owner, brokers))
    return _solved(costs, rows, _choice(ours, brokers), _Limits(len(costs), seconds))


def fullest(problem: BalanceProblem, owner: Indices) -> float:
    """Usage of the fullest broker, recomputed from nothing."""
    load = np.zeros_like(problem.capacity)
    np.add.at(load, owner, problem.demand)
    return float((load / problem.capacity).max())


def minimised(costs: Floats, rows: Rows, upper: Floats, integers: int = 0) -> highspy.Highs:
    """A program over variables from 0 to ``upper``, the first ``integers`` of them whole."""
    program = highspy.HighsLp()
    program.num_col_ = len(costs)
    program.num_row_ = len(rows.starts)
    program.col_cost_ = costs
    program.col_lower_ = np.zeros(len(costs))
    program.col_upper_ = upper
    program.row_lower_ = np.array(rows.lower)
    program.row_upper_ = np.array(rows.upper)
    kinds = highspy.HighsVarType
    if integers:
        left = len(costs) - integers
        program.integrality_ = [kinds.kInteger] * integers + [kinds.kContinuous] * left
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.array([*rows.starts, rows.count], np.int32)
    program.a_matrix_.index_ = np.concatenate(rows.columns)
    program.a_matrix_.value_ = np.concatenate(rows.values)
    solver = _silent_solver()
    solver.setOptionValue("threads", 1)
    solver.passModel(program)
    return solver


def _silent_solver() -> highspy.Highs:
    """HiGHS greets on stdout when it is made, before an option can keep it from that."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.silent()
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    return solver


def _placements(bundles: int, brokers: int) -> Rows:
    """Each bundle is on one broker."""
    rows = Rows()
    for bundle in range(bundles):
        columns = np.arange(bundle * brokers, (bundle + 1) * brokers, dtype=np.int32)
        rows.add(columns, np.ones(brokers), 1.0, 1.0)
    return rows


def _columns_of(broker: int, bundles: int, brokers: int) -> Indices:
    return np.arange(bundles, dtype=np.int32) * brokers + np.int32(broker)


def _choice(owner: Indices, brokers: int) -> Floats:
    """1 for each bundle at its broker, as the columns lie."""
    chosen = np.zeros((len(owner), brokers))
    chosen[np.arange(len(owner)), owner] = 1.0
    return chosen.ravel()


def _solved(costs: Floats, rows: Rows, begin: Floats, limits: _Limits) -> Optimum:
    upper = np.ones(len(costs))
    upper[limits.binary :] = highspy.kHighsInf
    solver = minimised(costs, rows, upper, limits.binary)
    solver.setOptionValue("time_limit", limits.seconds)
    solver.setOptionValue("mip_rel_gap", PRECISION)
    solver.setOptionValue("objective_target", limits.enough)
    solution = highspy.HighsSolution()
    solution.col_value = begin.tolist()
    solver.setSolution(solution)
    solver.run()
    info = solver.getInfo()
    known = float(costs @ begin)
    found = min(known, float(info.objective_function_value))
    return Optimum(found, min(found, max(0.0, float(info.mip_dual_bound))))
