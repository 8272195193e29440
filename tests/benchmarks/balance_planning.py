"""How long the planner takes from a random placement to an even one, and where it ends.

Loads are log-normal with sigma 1.2 (docs: load-history-sources), the same for each
resource of a bundle, so that the bound is what no placement can beat.
"""

import time
from typing import Any, Final

import numpy as np

from broker_ctl.core.rules.leader_rules import Band
from broker_ctl.core.strategies.balance.headroom import imbalance_bound
from broker_ctl.core.strategies.balance.planner import apply_moves, load_of, relieve
from broker_ctl.core.strategies.balance.problem import Allocation, BalanceProblem

_SIZES: Final = ((10_000, 100), (100_000, 1_000), (1_000_000, 1_000))
_SIGMA: Final = 1.2
_MEAN_USAGE: Final = 0.55
_RESOURCES: Final = 3
_RUNS: Final = 3
_BAND: Final = Band(high=1.045, low=1.03, least=0.0)


def planning() -> dict[str, Any]:
    """Medians of three runs each, on the same problems every time."""
    seconds: dict[str, float] = {}
    over_bound: dict[str, float] = {}
    moves: dict[str, int] = {}
    for bundles, brokers in _SIZES:
        name = f"{bundles}x{brokers}"
        runs = [_run(_problem(bundles, brokers, seed)) for seed in range(_RUNS)]
        seconds[name] = sorted(run[0] for run in runs)[_RUNS // 2]
        over_bound[name] = max(run[1] for run in runs)
        moves[name] = runs[0][2]
    return {
        "planning_s": seconds,
        "planning_result_over_bound": over_bound,
        "planning_moves": moves,
    }


def _problem(bundles: int, brokers: int, seed: int) -> BalanceProblem:
    draw = np.random.Generator(np.random.PCG64(seed))
    load = draw.lognormal(0.0, _SIGMA, bundles)
    demand = np.repeat(load[:, np.newaxis], _RESOURCES, axis=1)
    capacity = np.full((brokers, _RESOURCES), load.sum() / brokers / _MEAN_USAGE)
    owner = draw.integers(0, brokers, bundles).astype(np.int32)
    return BalanceProblem.plain(demand, capacity, owner)


def _run(problem: BalanceProblem) -> tuple[float, float, int]:
    """Seconds, result over bound, moves."""
    began_s = time.perf_counter()
    relief = relieve(problem, _BAND)
    took_s = time.perf_counter() - began_s
    result = _max_over_mean(apply_moves(problem, relief.moves))
    return took_s, result / imbalance_bound(problem), len(relief.moves)


def _max_over_mean(problem: BalanceProblem) -> float:
    """Recomputed from nothing: not what the planner says of itself."""
    usage = Allocation(problem, load_of(problem)).usage
    return float(usage.max() / usage.mean())
