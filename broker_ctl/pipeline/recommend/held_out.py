"""A candidate on days that it was not chosen on (docs: load-history-sources).

Recorded traffic is one sequence of days; seeds only draw who has what at the start. So a candidate
is chosen on days 1 to n if it was better than the baseline there, and judged on day n + 1, for each
n. Days in a row are alike: the interval of the mean of the judged days is a bootstrap of blocks of
days.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from broker_ctl.pipeline.backtest.candidates import Named
from broker_ctl.pipeline.backtest.intervals import Floats
from broker_ctl.pipeline.backtest.judging import MEASURES
from broker_ctl.pipeline.backtest.results import DayRow

_RESAMPLES: Final = 20_000
_DRAW_SEED: Final = 1
_DIGITS: Final = 12


class HeldOut(NamedTuple):
    """Differences to the baseline on judged days; below 0 is better.

    Attributes:
        days: that were judged; there were ``of_days`` besides the first.
        low, high: of the mean, at the level that was asked for.
    """

    days: int
    of_days: int
    mean: float
    low: float
    high: float


Key = tuple[str, Named, str]


def judge_days(rows: Sequence[DayRow], baseline: Named, limit: float) -> Mapping[Key, HeldOut]:
    """By trace, candidate and measure.

    Args:
        rows: of the baseline, and of candidates with the same seeds.
        baseline: what all are held against.
        limit: chance that a mean is outside its interval to one side; see `rule.limit_of`.
    """
    days = _means(rows)
    found: dict[Key, HeldOut] = {}
    for trace, named in days:
        before = days.get((trace, baseline))
        if named == baseline or before is None:
            continue
        for place, measure in enumerate(MEASURES):
            differences = days[trace, named][:, place] - before[:, place]
            # Means of equal values may differ in their last digit.
            exact = np.round(differences, _DIGITS).tolist()
            found[trace, named, measure] = judge_differences(exact, limit)
    return found


def judge_differences(differences: Sequence[float], limit: float) -> HeldOut:
    """Of one candidate, day by day."""
    values = np.asarray(differences, float)
    # Means of days 1 to n, for the days that follow.
    chosen = np.cumsum(values)[:-1] < 0
    judged = values[1:][chosen]
    if not len(judged):
        return HeldOut(0, max(0, len(values) - 1), 0.0, -np.inf, np.inf)
    low, high = _interval(judged, limit)
    return HeldOut(len(judged), len(values) - 1, float(judged.mean()), low, high)


def _interval(values: Floats, limit: float) -> tuple[float, float]:
    """Of the mean; circular blocks of about the third root of the number of days."""
    count = len(values)
    if count == 1:
        return -np.inf, np.inf
    length = max(1, round(count ** (1 / 3)))
    blocks = -(-count // length)
    rng = np.random.Generator(np.random.PCG64(_DRAW_SEED))
    starts = rng.integers(count, size=(_RESAMPLES, blocks))
    places = (starts[:, :, None] + np.arange(length)) % count
    means = values[places.reshape(_RESAMPLES, -1)[:, :count]].mean(axis=1)
    low, high = np.quantile(means, [limit, 1 - limit]).tolist()
    return low, high


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
