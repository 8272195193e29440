"""Back-tests made by hand: replays of which only what is compared matters."""

from collections.abc import Mapping, Sequence

from broker_ctl.pipeline.backtest.judging import compare
from broker_ctl.pipeline.backtest.results import ComparisonRow, Named, ReplayRow

USUAL = Named("settings", "")
# p99, load that is moved, overloaded minutes.
Measured = tuple[float, float, int]


def replay(trace: str, candidate: Named, seed: int, measured: Measured) -> ReplayRow:
    """One replay of ten minutes."""
    p99, moved, overloaded = measured
    return ReplayRow(trace, *candidate, seed, 10, 1.0, p99, p99, p99, moved, 1, 0, 1, overloaded)


def replays(
    trace: str, measured: Mapping[Named, Sequence[Measured]], first_seed: int = 0
) -> list[ReplayRow]:
    """One replay of each candidate for each of its measured values."""
    return [
        replay(trace, candidate, seed, each)
        for candidate, items in measured.items()
        for seed, each in enumerate(items, first_seed)
    ]


def comparisons(rows: Sequence[ReplayRow], baseline: Named = USUAL) -> list[ComparisonRow]:
    """The comparisons that the job makes of these replays."""
    return list(compare(rows, baseline))
