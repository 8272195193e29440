"""Compares candidates with the baseline, and finds the Pareto front of each trace.

Comparisons are paired, on the same seeds. Docs: load-history-sources.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from broker_ctl.pipeline.backtest.candidates import Named
from broker_ctl.pipeline.backtest.intervals import mean_interval
from broker_ctl.pipeline.backtest.pareto import find_pareto_front
from broker_ctl.pipeline.backtest.results import ComparisonRow, FrontRow, ReplayRow

MEASURES: Final = ("p99", "load_moved_pct_per_h", "overload_broker_min")


def compare(replays: Iterable[ReplayRow], baseline: Named) -> Iterator[ComparisonRow]:
    """Every other candidate against the baseline, trace by trace and measure by measure.

    Those that share no seed with the baseline are not compared.
    """
    for trace, candidates in _by_trace(replays).items():
        before = candidates.get(baseline, {})
        for candidate, after in candidates.items():
            seeds = sorted(before.keys() & after.keys())
            if candidate == baseline or not seeds:
                continue
            for measure in MEASURES:
                yield _comparison(
                    (trace, candidate, measure, baseline),
                    [float(getattr(before[seed], measure)) for seed in seeds],
                    [float(getattr(after[seed], measure)) for seed in seeds],
                )


def pareto_fronts(replays: Iterable[ReplayRow]) -> Iterator[FrontRow]:
    """Means of each candidate over the seeds by trace, and whether it is on the Pareto front."""
    for trace, candidates in _by_trace(replays).items():
        means = [_means(list(rows.values())) for rows in candidates.values()]
        best = find_pareto_front(np.array(means)).tolist()
        for (candidate, rows), three, is_best in zip(candidates.items(), means, best, strict=True):
            p99, moved, overloaded = three
            yield FrontRow(trace, *candidate, len(rows), p99, moved, overloaded, is_best)


def _comparison(
    key: tuple[str, Named, str, Named], before: Sequence[float], after: Sequence[float]
) -> ComparisonRow:
    trace, candidate, measure, baseline = key
    differences = [late - early for early, late in zip(before, after, strict=True)]
    interval = mean_interval(np.array(differences))
    return ComparisonRow(
        trace=trace,
        policy=candidate.policy,
        parameters=candidate.parameters,
        measure=measure,
        baseline_policy=baseline.policy,
        baseline_parameters=baseline.parameters,
        pairs=len(before),
        baseline_mean=_mean(before),
        candidate_mean=_mean(after),
        difference=interval.mean,
        low=interval.low,
        high=interval.high,
    )


def _means(rows: Sequence[ReplayRow]) -> list[float]:
    return [_mean([float(getattr(row, measure)) for row in rows]) for measure in MEASURES]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _by_trace(replays: Iterable[ReplayRow]) -> dict[str, dict[Named, dict[int, ReplayRow]]]:
    found: dict[str, dict[Named, dict[int, ReplayRow]]] = {}
    for row in replays:
        candidates = found.setdefault(row.trace, {})
        candidates.setdefault(Named(row.policy, row.parameters), {})[row.seed] = row
    return found
