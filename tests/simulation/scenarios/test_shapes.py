"""Waves, ramps, crowds, switches."""

import numpy as np
import pytest

from broker_ctl.simulation.scenarios import crowd, daily, ramp, switching


def test_a_daily_wave_is_1_on_average_and_swings_by_its_amplitude() -> None:
    level = daily(1440, np.array([0.35, 0.0]), np.zeros(2))
    assert level.mean(axis=0).tolist() == pytest.approx([1, 1])
    assert (level[:, 0].max(), level[:, 0].min()) == pytest.approx((1.35, 0.65))
    assert level[:, 1].tolist() == [1.0] * 1440


def test_the_day_of_a_region_lags() -> None:
    level = daily(1440, np.full(3, 0.35), np.array([0.0, 480.0, 960.0]))
    assert level.argmax(axis=0).tolist() == [360, 840, 1320]
    assert level.mean(axis=1).tolist() == pytest.approx([1.0] * 1440)


def test_a_ramp_is_a_straight_line_between_0_and_1() -> None:
    assert ramp(8, 2, 4).tolist() == [0, 0, 0, 0.25, 0.5, 0.75, 1, 1]


def test_a_crowd_comes_and_goes() -> None:
    assert crowd(10, 1, 5, 2).tolist() == [0, 0, 0.5, 1, 1, 1, 1, 0.5, 0, 0]


def test_switches_stay_within_their_span() -> None:
    is_on = switching(np.random.Generator(np.random.PCG64(1)), 1440, 50, (3, 20))
    assert is_on.shape == (1440, 50)
    assert is_on[0].all()
    spans = []
    for column in is_on.T:
        spans += np.diff(np.flatnonzero(np.diff(column.astype(int)))).tolist()
    assert (min(spans), max(spans)) == (3, 20)
    assert np.mean(spans) == pytest.approx(11.5, abs=0.5)
