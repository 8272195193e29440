"""The autoscaler of the benchmark orders brokers as that of the chart does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from broker_ctl.simulation.scenarios import scenario
from tests.benchmarks.autoscale import filled_brokers, follow, one_region

BENCHMARK = Path(__file__).parent / "autoscale.py"


def test_what_is_missing_is_ordered_at_once_and_at_most_twice_as_many() -> None:
    assert follow([4] * 3 + [6] * 3, 20) == [4, 4, 4, 4, 6, 6]
    assert follow([4] + [30] * 4, 20) == [4, 4, 8, 16, 20]


def test_a_lull_of_less_than_half_an_hour_changes_nothing() -> None:
    assert set(follow([8] * 40 + [4] * 29 + [8] * 40, 20)) == {8}


def test_one_goes_every_ten_minutes_once_the_window_is_lower() -> None:
    ordered = follow([8] * 10 + [4] * 90, 20)
    changes = [minute for minute in range(1, 100) if ordered[minute] != ordered[minute - 1]]
    assert changes == [40, 50, 60, 70]
    assert ordered[-1] == 4


def test_within_a_tenth_nothing_is_done() -> None:
    assert set(follow([20] + [22] * 50, 30)) == {20}
    assert set(follow([20] * 40 + [18] * 200, 30)) == {20}
    assert max(follow([20] + [23] * 50, 30)) == 23


def test_nights_carry_a_third_and_weekends_four_fifths() -> None:
    plain = scenario("diurnal", brokers=2, hours=168)
    ratios = filled_brokers(one_region(plain)) / filled_brokers(plain)
    assert ratios[0] == pytest.approx(1 / 3, rel=1e-3)
    assert ratios[720] == pytest.approx(1.0, rel=1e-3)
    assert ratios[5 * 1440 + 720] == pytest.approx(0.8, rel=1e-3)


@pytest.mark.slow
def test_a_day_has_every_figure() -> None:
    command = [sys.executable, str(BENCHMARK), "--days", "1", "--brokers", "4", "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    advised, peak = found["advised"], found["peak"]
    assert advised.keys() == peak.keys()
    assert peak["least_brokers"] == peak["most_brokers"] == found["peak_brokers"]
    assert found["broker_hours_ratio"] == pytest.approx(
        advised["broker_hours"] / peak["broker_hours"]
    )
    assert peak["short_hours"] == 0
