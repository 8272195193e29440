"""The trace of the imbalance is bounded, keeps peaks, and has even distances."""

from itertools import pairwise

import pytest

from broker_ctl.core.history.rows import BalancePoint, BalanceTrace


def trace(cycles: int, most: int) -> BalanceTrace:
    kept = BalanceTrace(most)
    for at in range(cycles):
        kept.add(BalancePoint(at, 9.0 if at == 5 else 1.0 + at / 1e6, None))
    return kept


@pytest.mark.parametrize("cycles", [0, 1, 7, 8, 9, 63, 64, 65, 1000])
def test_it_is_bounded_and_ends_with_the_newest_cycles(cycles: int) -> None:
    points = trace(cycles, 8).points()
    assert len(points) <= 8
    if cycles:
        assert points[-1].at_ms == cycles - 1
    assert [point.at_ms for point in points] == sorted(point.at_ms for point in points)


def test_a_peak_stays_however_long_the_leader_leads() -> None:
    points = trace(10_000, 8).points()
    assert points[0].usage == 9.0
    assert sum(point.usage == 9.0 for point in points) == 1


def test_points_of_full_traces_lie_equally_far_apart() -> None:
    points = trace(64, 8).points()
    distances = {after.at_ms - before.at_ms for before, after in pairwise(points[1:])}
    assert len(points) > 4
    assert len(distances) == 1


def test_fewer_points_keep_the_peaks_too() -> None:
    kept = trace(100, 128)
    assert len(kept.points()) == 100
    assert len(kept.points(10)) == 10
    assert kept.points(10)[0].usage == 9.0
    assert BalanceTrace().points(10) == ()


def test_a_cycle_without_load_does_not_hide_one_with_load() -> None:
    kept = BalanceTrace(2)
    for at, usage in enumerate((None, 1.5, None, 1.2)):
        kept.add(BalancePoint(at, usage, None))
    assert kept.points()[0].usage == 1.5
    assert BalancePoint(7, 1.5, 2.0).to_row() == {
        "at_ms": 7,
        "usage_imbalance": 1.5,
        "throughput_imbalance": 2.0,
    }
