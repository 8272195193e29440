"""How traffic goes through a day: waves, ramps, crowds, switches."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.simulation.scenarios.noise import Level

DAY_MIN: Final = 1440


def daily(minutes: int, amplitudes: Level, lags_min: Level) -> Level:
    """A wave a day for each bundle, shape (minutes, bundles), mean 1 over a day.

    Args:
        minutes: how many.
        amplitudes: of each bundle, below 1.
        lags_min: how much later than the first region's the day of each bundle is.
    """
    turn = 2 * np.pi * (np.arange(minutes)[:, None] - lags_min) / DAY_MIN
    return 1 + amplitudes * np.sin(turn)


def ramp(minutes: int, start: int, rise_min: int) -> Level:
    """From 0 at ``start`` to 1 ``rise_min`` later, in a straight line; shape (minutes,)."""
    return np.clip((np.arange(minutes) - start) / rise_min, 0.0, 1.0)


def crowd(minutes: int, start: int, stay_min: int, rise_min: int) -> Level:
    """Up by a ramp at ``start``, down by one ``stay_min`` later; shape (minutes,)."""
    return ramp(minutes, start, rise_min) - ramp(minutes, start + stay_min, rise_min)


def switching(
    rng: np.random.Generator, minutes: int, bundles: int, span_min: tuple[int, int]
) -> NDArray[np.bool_]:
    """On and off, each time for a number of minutes within ``span_min``; (minutes, bundles)."""
    shortest, longest = span_min
    spans = rng.integers(shortest, longest, size=(minutes // shortest + 1, bundles), endpoint=True)
    ends = np.minimum(np.cumsum(spans, axis=0), minutes)
    flips = np.zeros((minutes + 1, bundles), dtype=np.int64)
    np.add.at(flips, (ends, np.arange(bundles)[None, :]), 1)
    is_on: NDArray[np.bool_] = np.cumsum(flips[:-1], axis=0) % 2 == 0
    return is_on
