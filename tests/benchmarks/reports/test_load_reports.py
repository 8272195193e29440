"""What the benchmark of load reports makes of what it has read."""

import pytest

from tests.benchmarks.reports.leader import lag_figures

BEFORE = {1.0: 10.0, 5.0: 20.0, 20.0: 20.0, 50.0: 21.0, float("inf"): 21.0}


def after(*counts: int) -> dict[float, float]:
    return {
        bound: BEFORE[bound] + sum(counts[: index + 1])
        for index, bound in enumerate(sorted(BEFORE))
    }


@pytest.mark.parametrize(
    ("counts", "p50", "p99", "most"),
    [
        ((100, 0, 0, 0, 0), 0.5, 0.99, 1.0),
        ((50, 49, 1, 0, 0), 1.0, 5.0, 20.0),
        ((0, 98, 0, 2, 0), 3.04, 35.0, 50.0),
        ((0, 0, 0, 0, 4), 50.0, 50.0, float("inf")),
    ],
)
def test_lag_is_that_of_the_time_in_between(
    counts: tuple[int, ...], p50: float, p99: float, most: float
) -> None:
    assert lag_figures(BEFORE, after(*counts)) == {"p50": p50, "p99": p99, "max": most}
