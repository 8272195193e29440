"""The planner beside the optimum, case by case."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import median
from typing import Any, Final, Self

from broker_ctl.core.rules.leader_rules import Band
from broker_ctl.core.strategies.balance.planner import apply_moves, relieve
from broker_ctl.core.strategies.balance.problem import BalanceProblem, Indices
from tests.benchmarks.optimal.cases import Case
from tests.benchmarks.optimal.solver import fullest, least_maximum, least_moved

# To get as low as it can, the planner is given narrower and narrower bands: in a narrow one alone
# half of the brokers could receive nothing.
LEVELS: Final = (1.1, 1.08, 1.06, 1.05, 1.04, 1.03, 1.025, 1.02, 1.015, 1.01, 1.0075, 1.005, 1.003)
# Without the distance between detecting and fixing, which the optimum would not keep: it moves no
# more than has to go.
GIVEN: Final = Band(high=1.04, low=1.04, least=0.0)
_WORST: Final = 5


@dataclass(frozen=True, slots=True)
class Gap:
    """One case.

    Attributes:
        before: usage of the fullest broker over what it were if all were equally full.
        max_ours, max_optimum, max_bound: likewise; what the solver found, and what it proved.
        moved_ours, moved_optimum, moved_bound: part of all load that moves for the same maximum.
    """

    case: int
    brokers: int
    bundles: int
    resources: int
    is_split: bool
    before: float
    max_ours: float
    max_optimum: float
    max_bound: float
    moved_ours: float
    moved_optimum: float
    moved_bound: float

    @property
    def max_gap(self) -> float:
        """By how much our maximum is above the optimum."""
        return self.max_ours / self.max_optimum - 1

    @property
    def moved_gap(self) -> float:
        """By how much we move more than has to move; 0 where nothing has to."""
        return self.moved_ours / self.moved_optimum - 1 if self.moved_optimum > 0 else 0.0

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "max_gap": self.max_gap, "moved_gap": self.moved_gap}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """What `to_row` wrote."""
        return cls(**{field.name: row[field.name] for field in fields(cls)})


def gap_of(case: Case, seconds: float) -> Gap:
    """Both programs, each with as many seconds at most."""
    problem, weight = case.problem, case.weight
    even = float((problem.demand.sum(axis=0) / problem.capacity.sum(axis=0)).max())
    low = lowest_of(problem)
    ours = fullest(problem, low)
    lowest = least_maximum(problem, low, seconds)
    given = apply_moves(problem, relieve(problem, GIVEN).moves).owner
    most = fullest(problem, given)
    moved = least_moved(problem, weight, most, given, seconds)
    return Gap(
        case=case.number,
        brokers=len(problem.capacity),
        bundles=len(problem.demand),
        resources=problem.demand.shape[1],
        is_split=case.is_split,
        before=fullest(problem, problem.owner) / even,
        max_ours=ours / even,
        max_optimum=lowest.value / even,
        max_bound=lowest.bound / even,
        moved_ours=float(weight[given != problem.owner].sum()),
        moved_optimum=moved.value,
        moved_bound=moved.bound,
    )


def lowest_of(problem: BalanceProblem) -> Indices:
    """The placement with the least maximum that the planner finds."""
    best = now = problem
    for level in LEVELS:
        now = apply_moves(now, relieve(now, Band(level, level, least=0.0)).moves)
        best = min(best, now, key=lambda each: fullest(each, each.owner))
    return best.owner


def summary_of(gaps: Sequence[Gap]) -> dict[str, Any]:
    """Medians, the worst cases of either kind, and how much of it is proven."""
    groups = {
        "all": gaps,
        "split": [gap for gap in gaps if gap.is_split],
        "whole": [gap for gap in gaps if not gap.is_split],
    }
    proven_max = [gap for gap in gaps if gap.max_optimum <= gap.max_bound * 1.002]
    proven_moved = [gap for gap in gaps if gap.moved_optimum <= gap.moved_bound * 1.01]
    return {
        "cases": len(gaps),
        "median_max_gap": {
            **{name: _median(gap.max_gap for gap in group) for name, group in groups.items()},
            "proven": _median(gap.max_gap for gap in proven_max),
        },
        "median_max_over_bound": _median(gap.max_ours / gap.max_bound - 1 for gap in gaps),
        "median_moved_gap": {
            **{name: _median(gap.moved_gap for gap in group) for name, group in groups.items()},
            "proven": _median(gap.moved_gap for gap in proven_moved),
        },
        "median_moved_over_bound": _median(
            gap.moved_ours / gap.moved_bound - 1 for gap in gaps if gap.moved_bound > 0
        ),
        "proven_max": len(proven_max),
        "proven_moved": len(proven_moved),
        "worst_max": [gap.to_row() for gap in _worst(gaps, lambda gap: gap.max_gap)],
        "worst_moved": [gap.to_row() for gap in _worst(gaps, lambda gap: gap.moved_gap)],
    }


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return median(found) if found else None


def _worst(gaps: Sequence[Gap], key: Any) -> list[Gap]:
    return sorted(gaps, key=key, reverse=True)[:_WORST]
