"""Noise and bursts, as production has them (docs: load-history-sources)."""

import numpy as np
import pytest

from broker_ctl.simulation.scenarios import add_spikes, autoregressive_noise

DAY_MIN = 1440


def draw(seed: int = 1) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_noise_has_a_deviation_of_15_percent_from_the_first_minute_on() -> None:
    level = autoregressive_noise(draw(), DAY_MIN, 1000)
    assert level.shape == (DAY_MIN, 1000)
    assert level.mean() == pytest.approx(1, abs=0.01)
    for minute in (0, 1, 700, -1):
        assert level[minute].std() == pytest.approx(0.15, abs=0.015)


def test_a_minute_correlates_with_the_one_before_by_0_95() -> None:
    level = autoregressive_noise(draw(), DAY_MIN, 500) - 1
    for lag, correlation in ((1, 0.95), (2, 0.95**2), (20, 0.95**20)):
        products = (level[lag:] * level[:-lag]).mean()
        assert products / level.var() == pytest.approx(correlation, abs=0.01)


def test_bundles_are_restless_each_on_its_own() -> None:
    level = autoregressive_noise(draw(), DAY_MIN, 400)
    # Of the mean of 400 independent ones: a twentieth of one's own deviation.
    assert level.mean(axis=1).std() < 0.15 / 10


def test_noise_never_silences_a_bundle() -> None:
    level = autoregressive_noise(draw(), DAY_MIN, 100, deviation=1.0)
    assert level.min() == 0.05
    assert 0.1 < (level == 0.05).mean() < 0.2


def test_2_percent_of_the_bundles_have_a_burst_in_a_day() -> None:
    level = add_spikes(draw(), DAY_MIN, 8_000)
    has_burst = (level > 1).any(axis=0).sum()
    assert has_burst == pytest.approx(160, abs=30)


def test_two_days_have_twice_as_many_bursts() -> None:
    assert (add_spikes(draw(), 2 * DAY_MIN, 8_000) > 1).any(axis=0).sum() > 270


def test_a_burst_begins_at_once_and_has_lost_two_thirds_after_half_an_hour() -> None:
    level = add_spikes(draw(), DAY_MIN, 8_000)
    start, column = np.unravel_index(int(level[: DAY_MIN - 30].argmax()), level.shape)
    assert level[start - 1, column] == 1
    before, after = level[start, column] - 1, level[start + 30, column] - 1
    assert after == pytest.approx(before / np.e)


def test_heights_are_pareto_with_a_bound() -> None:
    heights = add_spikes(draw(), DAY_MIN, 10_000).max(axis=0)
    heights = heights[heights > 1]
    assert heights.max() <= 20
    # P(height > x) = x^-1.5
    for height in (2.0, 4.0):
        assert (heights > height).mean() == pytest.approx(height**-1.5, abs=0.08)
