"""Judges candidates by their results: intervals, and which of them no other one dominates."""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.pipeline.backtest.results import ComparisonRow, FrontRow, Named, ReplayRow

# Bootstrap confidence intervals of means (docs: load-history-sources).
#
# The resampled values are differences of pairs: a candidate and the baseline were replayed with
# the same seeds, so effects of a seed on both cancel out.


RESAMPLES: Final = 10_000
_CONFIDENCE_PERCENT: Final = 95.0
_DRAW_SEED: Final = 1


class Interval(NamedTuple):
    """A mean and its confidence interval; the interval of a single value is unbounded."""

    mean: float
    low: float
    high: float


def mean_interval(values: Floats) -> Interval:
    """The mean of some values, and its 95 % interval: percentiles of resampled means.

    The draws are always the same: equal values give an equal interval, to the bit. The interval of
    few values is too narrow (with five it covers the true mean in about 83 % of all cases); this is
    not corrected.

    Raises:
        ValueError: no values.
    """
    if not len(values):
        raise ValueError("no values")
    # numpy's own mean would depend on the processor's order of summation.
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Interval(mean, -math.inf, math.inf)
    means = (_counts(len(values)) * values).sum(axis=1) / len(values)
    tail = (100 - _CONFIDENCE_PERCENT) / 2
    low, high = np.percentile(means, [tail, 100 - tail]).tolist()
    # Rounding must not put a mean outside the range of its values.
    return Interval(mean, min(low, mean), max(high, mean))


# A sweep compares thousands of candidates on as many seeds each.
@lru_cache(maxsize=1)
def _counts(values: int) -> Floats:
    """How often each value is in each resample: sums of the same values are then the same."""
    rng = np.random.Generator(np.random.PCG64(_DRAW_SEED))
    samples = rng.integers(values, size=(RESAMPLES, values))
    counts = np.zeros((RESAMPLES, values))
    np.add.at(counts, (np.arange(RESAMPLES)[:, None], samples), 1.0)
    return counts


# The Pareto front: the points that no other dominates (docs: load-history-sources).


def find_pareto_front(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which points no other one beats: is as good in everything and better in something.

    Equal points do not beat each other.

    Args:
        points: shape (points, measures); less is better in each.

    Raises:
        ValueError: a value is not a number.
    """
    if np.isnan(points).any():
        raise ValueError("a measure is not a number")
    is_on = np.ones(len(points), dtype=np.bool_)
    for place, point in enumerate(points):
        is_as_good = (points <= point).all(axis=1)
        is_better = (points < point).any(axis=1)
        is_on[place] = not (is_as_good & is_better).any()
    return is_on


# Compares candidates with the baseline, and finds the Pareto front of each trace.
#
# Comparisons are paired, on the same seeds. Docs: load-history-sources.


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
