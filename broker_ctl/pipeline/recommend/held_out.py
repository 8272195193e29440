"""Candidates on days that they were not chosen by, with a permutation test."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log2, sqrt
from statistics import fmean, stdev
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.pipeline.backtest.judging import MEASURES
from broker_ctl.pipeline.backtest.results import DayRow, Named

# The p-value of paired differences: a sign-flip permutation test (Fisher's).
#
# If a candidate is as good as the baseline, each difference is as likely to be positive as
# negative. So each choice of signs is as likely as the observed one; the p-value is the share of
# choices with a mean as low. The test makes no other assumption, and few pairs cannot prove much:
# with n pairs the p-value is at least 2 to the power of -n. A bootstrap interval alone lies below
# 0 whenever all of two pairs do.


# Up to this number of pairs every choice of signs is counted; beyond it as many are drawn.
_MOST_ENUMERATED: Final = 18
_AT_ONCE: Final = 1 << 14
_SEED: Final = 20_260_101
# Sums of the same numbers in another order differ by less, relative to the sum of their sizes.
_ROUNDING: Final = 1e-12


def p_value(differences: Sequence[float]) -> float:
    """Part of all choices of signs with which the mean is as low; up to 18 pairs exact.

    With more pairs 262,144 choices are drawn, always the same; what was seen counts among them.
    1.0 where there are no pairs.

    Args:
        differences: candidate minus baseline of each pair, finite; below 0 is better.
    """
    sizes = np.abs(np.asarray(differences, float))
    limit = float(np.sum(differences)) + _ROUNDING * float(sizes.sum())
    low = sum(
        int(np.count_nonzero(flipped @ sizes <= limit)) for flipped in _choices(len(differences))
    )
    count = 1 << min(len(differences), _MOST_ENUMERATED)
    if len(differences) <= _MOST_ENUMERATED:
        return low / count
    return (low + 1) / (count + 1)


def min_pairs(limit: float) -> int:
    """With fewer pairs no `p_value` is at most so small."""
    return ceil(log2(1 / limit))


def _choices(pairs: int) -> Iterator[NDArray[np.float64]]:
    """Signs, a few thousand choices at a time, shape (choices, pairs)."""
    total = 1 << min(pairs, _MOST_ENUMERATED)
    rng = np.random.default_rng(_SEED)
    for start in range(0, total, _AT_ONCE):
        numbers = np.arange(start, min(start + _AT_ONCE, total))
        if pairs <= _MOST_ENUMERATED:
            bits = (numbers[:, None] >> np.arange(pairs)) & 1
        else:
            bits = rng.integers(0, 2, (len(numbers), pairs))
        yield np.where(bits, 1.0, -1.0)


# A candidate on days that it was not chosen on (docs: load-history-sources).
#
# Recorded traffic is one sequence of days; seeds only draw who has what at the start. So the best
# of all candidates is chosen on the first quarter of the days, and that one alone is judged, on
# the days after these. However many were tried, one is judged: the number of candidates needs no
# correction.
#
# Days in a row are alike, and some are far from usual. So the judged days are parted into a few
# blocks of days in a row, whose means are far less so, and Student's t of these few means is the
# test. It would still speak too often for days with a memory or a skew; the level is a quarter of
# what it should be, which makes up for it where the later days of 7, 14 and 30 are independent,
# correlated by 0.5 from one to the next, or as skewed as an exponential distribution: a test holds
# the shares of false alarms below 5 % there.


# What can speak for a candidate; all measures can speak against it.
FOR: Final = ("p99", "load_moved_pct_per_h")
# With fewer days nothing is judged.
NEEDED_DAYS: Final = 7
# The first day of four is for the choice, likewise of more.
_CHOOSING: Final = 4
# Number of blocks, by the number of judged days; two days and more in each.
_MORE_BLOCKS_FROM: Final = 8
_FEW_BLOCKS, _MORE_BLOCKS = 3, 4
# Quantiles of Student's t that are exceeded in 1 of 160 cases, by the number of blocks: a quarter
# of what 5 of 100 leave for each of the two measures that can speak for a candidate.
_QUANTILES: Final = {_FEW_BLOCKS: 8.8602, _MORE_BLOCKS: 5.3919}
_DIGITS: Final = 12


class HeldOut(NamedTuple):
    """Differences to the baseline on judged days; below 0 is better.

    Attributes:
        days: that were judged, the last ones of ``of_days``.
        mean: over the blocks of judged days.
        low, high: of the mean; without bounds where there are too few days.
    """

    days: int
    of_days: int
    mean: float
    low: float
    high: float


Key = tuple[str, Named, str]


@dataclass(frozen=True, slots=True)
class LaterDays:
    """What recorded days say.

    Attributes:
        chosen: the best of all on the first days; None: there are no days.
        held_out: the chosen one on the days after, by trace, candidate and measure.
    """

    chosen: Named | None
    held_out: Mapping[Key, HeldOut]


NO_DAYS: Final = LaterDays(None, {})


def judge_days(rows: Sequence[DayRow], baseline: Named) -> LaterDays:
    """Choose one candidate on the first days of all traces, and judge it on the later ones.

    Args:
        rows: of the baseline, and of candidates with the same seeds.
        baseline: what all are held against.
    """
    days = _means(rows)
    traces = sorted({trace for trace, _ in days})
    tried = sorted(
        {
            named
            for _, named in days
            if named != baseline
            and all({(each, named), (each, baseline)} <= days.keys() for each in traces)
        }
    )
    if not tried:
        return NO_DAYS
    chosen = min(tried, key=lambda named: (*_merit(days, traces, named, baseline), named))
    found: dict[Key, HeldOut] = {}
    for trace in traces:
        differences = days[trace, chosen] - days[trace, baseline]
        for place, measure in enumerate(MEASURES):
            # Means of equal values may differ in their last digit.
            exact = np.round(differences[:, place], _DIGITS).tolist()
            found[trace, chosen, measure] = judge_differences(exact)
    return LaterDays(chosen, found)


def first_days(days: int) -> int:
    """How many of them are for the choice."""
    return max(1, days // _CHOOSING)


def judge_differences(differences: Sequence[float]) -> HeldOut:
    """Of the chosen candidate, day by day."""
    count = len(differences)
    judged = differences[first_days(count) :]
    number = _MORE_BLOCKS if len(judged) >= _MORE_BLOCKS_FROM else _FEW_BLOCKS
    if count < NEEDED_DAYS:
        mean = fmean(judged) if judged else 0.0
        return HeldOut(len(judged), count, mean, -np.inf, np.inf)
    blocks = [fmean(each.tolist()) for each in np.array_split(np.array(judged), number)]
    mean = fmean(blocks)
    # Blocks that are equal leave what rounding makes of them.
    half = round(_QUANTILES[number] * stdev(blocks) / sqrt(number), _DIGITS)
    return HeldOut(len(judged), count, mean, mean - half, mean + half)


def _merit(
    days: Mapping[tuple[str, Named], Floats], traces: Sequence[str], named: Named, baseline: Named
) -> tuple[bool, float]:
    """Of a candidate on the first days, the lower the better: whether it harms, then how it is."""
    harms, total = False, 0.0
    for trace in traces:
        first = first_days(len(days[trace, baseline]))
        before = days[trace, baseline][:first].mean(axis=0)
        difference = np.round(days[trace, named][:first].mean(axis=0) - before, _DIGITS)
        harms |= bool((difference > 0).any())
        for measure in FOR:
            place = MEASURES.index(measure)
            total += float(difference[place] / before[place]) if before[place] else 0.0
    return harms, total


def _means(
    rows: Sequence[DayRow],
) -> dict[tuple[str, Named], Floats]:
    """By trace and candidate: a row per day, a column per measure, means over the seeds."""
    sums: dict[tuple[str, Named], dict[int, list[list[float]]]] = {}
    for row in rows:
        key = row.trace, Named(row.policy, row.parameters)
        values = [float(getattr(row, measure)) for measure in MEASURES]
        sums.setdefault(key, {}).setdefault(row.day, []).append(values)
    return {
        key: np.array([np.mean(by_day[day], axis=0) for day in sorted(by_day)])
        for key, by_day in sums.items()
    }
