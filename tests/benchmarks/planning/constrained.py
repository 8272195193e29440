"""Plans with racks, limits and caps of topics, beside an event loop that is watched."""

import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import uvloop

from broker_ctl.coordination.worker_thread import WorkerThread
from broker_ctl.core.rules.leader_rules import Band
from broker_ctl.core.strategies.balance.headroom import after_domain_loss, imbalance_bound
from broker_ctl.core.strategies.balance.limits import relieve_hard
from broker_ctl.core.strategies.balance.planner import Move, apply_moves, load_of, relieve
from broker_ctl.core.strategies.balance.problem import (
    Allocation,
    BalanceProblem,
    SpreadCounts,
    TopicSpread,
    within,
)
from tests.benchmarks.planning.course import Lags, Watched

_SIGMA: Final = 1.2
_MEAN_USAGE: Final = 0.55
_RESOURCES: Final = 3
_RACKS: Final = 20
_SIZES: Final = (0.75, 1.0, 1.5)
# Partitions of a topic, and how many of them a broker may have.
_PARTITIONS: Final = 50
_CAP: Final = 2
# Of the racks that some namespaces may use, and of those namespaces.
_SHARE_OF_RACKS: Final = 0.5
_RESTRICTED: Final = 0.1
# Room of the limits above what a broker has at the mean.
_ROOM: Final = (1.35, 1.35, 1.2)
_BAND: Final = Band(high=1.10, low=1.05, least=0.0)
_NO_LIMIT: Final = 1_000_000_000
_IDLE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Run:
    """One plan."""

    seconds: dict[str, float]
    moves: dict[str, int]
    broken: dict[str, tuple[int, int]]
    max_over_mean: tuple[float, float, float]


def plan_constrained(bundles: int, brokers: int, runs: int) -> dict[str, Any]:
    """Plan each of the problems once."""
    problems = [constrained_problem(bundles, brokers, seed) for seed in range(runs)]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        idle, busy, found = runner.run(_watched(problems))
    plans_s = [sum(run.seconds.values()) for run in found]
    return {
        "plan_s": {"median": round(statistics.median(plans_s), 2), "max": round(max(plans_s), 2)},
        "parts_s": {
            part: round(statistics.median(run.seconds[part] for run in found), 3)
            for part in found[0].seconds
        },
        "timer_late_ms": busy.row()["timer_late_ms"],
        "idle": idle.row()["timer_late_ms"],
        "moves": found[0].moves,
        "broken": {what: list(counts) for what, counts in found[0].broken.items()},
        "max_over_mean": [round(each, 4) for each in found[0].max_over_mean],
    }


async def _watched(problems: list[BalanceProblem]) -> tuple[Lags, Lags, list[_Run]]:
    planner, idle, busy = WorkerThread("planner"), Lags(), Lags()
    async with Watched(idle):
        await asyncio.sleep(_IDLE_S)
    async with Watched(busy):
        plans = [await planner.run(_plan, problem) for problem in problems]
    return idle, busy, [_judged(*each) for each in plans]


def _plan(
    problem: BalanceProblem,
) -> tuple[BalanceProblem, list[Move], list[Move], dict[str, float]]:
    seconds: dict[str, float] = {}

    def timed(part: str, work: Callable[[], Any]) -> Any:
        began_s = time.perf_counter()
        result = work()
        seconds[part] = time.perf_counter() - began_s
        return result

    repaired = timed("repairs", lambda: relieve_hard(problem, _BAND, _NO_LIMIT).moves)
    between = timed("apply", lambda: apply_moves(problem, tuple(repaired)))
    balanced = timed("balance", lambda: relieve(between, _BAND).moves)
    racks = [f"rack-{broker % _RACKS}" for broker in range(len(problem.capacity))]
    loads = load_of(problem)
    timed("loss of a rack", lambda: after_domain_loss(loads, problem.capacity, racks))
    return problem, repaired, list(balanced), seconds


def _judged(
    problem: BalanceProblem, repaired: list[Move], balanced: list[Move], seconds: dict[str, float]
) -> _Run:
    """Recomputed from nothing: not what the planner says of itself."""
    after = apply_moves(problem, (*repaired, *balanced))
    before_broken, after_broken = broken(problem), broken(after)
    return _Run(
        seconds,
        {"repairs": len(repaired), "balance": len(balanced)},
        {what: (before_broken[what], after_broken[what]) for what in before_broken},
        (_max_over_mean(problem), _max_over_mean(after), imbalance_bound(problem)),
    )


def broken(problem: BalanceProblem) -> dict[str, int]:
    """How many constraints a placement breaks."""
    held = np.zeros_like(problem.held)
    np.add.at(held, problem.owner, problem.takes)
    counts = SpreadCounts.of(problem.spread, problem.owner, len(problem.capacity))
    return {
        "limits": int((~within(held, problem.most)).sum()),
        "topic_caps": int((counts.sums > problem.spread.cap).sum()),
        "racks": int((~problem.allowed[problem.kind, problem.owner]).sum()),
    }


def _max_over_mean(problem: BalanceProblem) -> float:
    usage = Allocation(problem, load_of(problem)).usage
    return float(usage.max() / usage.mean())


def constrained_problem(bundles: int, brokers: int, seed: int) -> BalanceProblem:
    """A random start with every kind of constraint; the racks of bundles are kept by it."""
    draw = np.random.Generator(np.random.PCG64(seed))
    load = draw.lognormal(0.0, _SIGMA, bundles)
    sizes = np.array(_SIZES)[draw.integers(0, len(_SIZES), brokers)]
    sizes /= sizes.mean()
    share = load.sum() / brokers
    demand = np.repeat(load[:, np.newaxis], _RESOURCES, axis=1)
    capacity = np.repeat((sizes * share / _MEAN_USAGE)[:, np.newaxis], _RESOURCES, axis=1)
    racks = np.arange(brokers) % _RACKS
    allowed = np.stack([np.ones(brokers, bool), racks < _RACKS * _SHARE_OF_RACKS])
    kind = (draw.random(bundles) < _RESTRICTED).astype(np.int32)
    owner = _drawn_owners(draw, kind, allowed, sizes)
    # Bytes, messages, and one topic for each bundle; a larger broker has larger limits.
    takes = np.stack([load, draw.lognormal(0.0, _SIGMA, bundles), np.ones(bundles)], axis=1)
    held = np.zeros((brokers, takes.shape[1]))
    np.add.at(held, owner, takes)
    most = sizes[:, np.newaxis] * takes.sum(axis=0) / brokers * np.array(_ROOM)
    plain = BalanceProblem.plain(demand, capacity, owner)
    return replace(
        plain,
        kind=kind,
        allowed=allowed,
        sharing=allowed,
        takes=takes,
        held=held,
        most=most,
        spread=_drawn_spread(draw, bundles, brokers),
    )


def _drawn_owners(draw: np.random.Generator, kind: Any, allowed: Any, sizes: Any) -> Any:
    """At random by size, on allowed brokers."""
    owner = np.zeros(len(kind), np.int32)
    for row, able in enumerate(allowed):
        places = np.flatnonzero(kind == row)
        weights = sizes * able
        owner[places] = draw.choice(len(sizes), len(places), p=weights / weights.sum())
    return owner


def _drawn_spread(draw: np.random.Generator, bundles: int, brokers: int) -> TopicSpread:
    topics = max(1, bundles // _PARTITIONS)
    of_bundle = draw.permutation(np.arange(bundles) % topics).astype(np.int32)
    counts = np.bincount(of_bundle, minlength=topics)
    fair = np.ceil(counts / brokers).astype(np.int32)
    cap = max(_CAP, int(fair.max()) + 1)
    starts = np.arange(bundles + 1, dtype=np.int32)
    return TopicSpread(starts, of_bundle, np.ones(bundles, np.int32), fair, cap)
