"""Brokers that begin with unequal parts."""

from dataclasses import replace

import numpy as np

from broker_ctl.simulation.scenarios.draft import Draft, Size, population_of, steady

_FIRST_OVER_LAST = 4.0


def steady_skew(size: Size) -> Draft:
    """Noise only; the first broker begins with about four times as much as the last one."""
    odds = np.geomspace(_FIRST_OVER_LAST, 1.0, size.brokers)
    return replace(steady(size, population_of(size)), odds=tuple(odds.tolist()))
