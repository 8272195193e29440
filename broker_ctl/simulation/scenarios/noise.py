"""What makes traffic restless: noise with a memory, and bursts.

Docs: load-history-sources. A level multiplies a bundle's traffic; shape (minutes,
bundles).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Level = NDArray[np.float64]

_DEVIATION: Final = 0.15
_CORRELATION: Final = 0.95
_LEAST: Final = 0.05
_SPIKES_PER_BUNDLE_DAY: Final = 0.02
_SPIKE_TAIL: Final = 1.5
_HIGHEST_SPIKE: Final = 20.0
_SPIKE_DECAY_MIN: Final = 30.0
_DAY_MIN: Final = 1440


def autoregressive_noise(
    rng: np.random.Generator, minutes: int, bundles: int, deviation: float = _DEVIATION
) -> Level:
    """Around 1 and never nothing; a minute correlates with the one before by 0.95."""
    wander = rng.standard_normal((minutes, bundles))
    # The first minute has the deviation of all others: the noise has always been there.
    wander[1:] *= np.sqrt(1 - _CORRELATION**2)
    for minute in range(1, minutes):
        wander[minute] += _CORRELATION * wander[minute - 1]
    return np.maximum(1 + deviation * wander, _LEAST)


def add_spikes(rng: np.random.Generator, minutes: int, bundles: int) -> Level:
    """1, but for sudden bursts that fade within the hour: in a day 2 % of the bundles have one.

    A burst multiplies the traffic by a Pareto variable with exponent 1.5, at most by 20.
    """
    level = np.ones((minutes, bundles))
    count = rng.poisson(_SPIKES_PER_BUNDLE_DAY * bundles * minutes / _DAY_MIN)
    columns = rng.integers(bundles, size=count)
    starts = rng.integers(minutes, size=count)
    heights = np.minimum(1 + rng.pareto(_SPIKE_TAIL, size=count), _HIGHEST_SPIKE)
    fading = np.exp(-np.arange(minutes) / _SPIKE_DECAY_MIN)
    for column, start, height in zip(columns, starts, heights, strict=True):
        level[start:, column] += (height - 1) * fading[: minutes - start]
    return level
