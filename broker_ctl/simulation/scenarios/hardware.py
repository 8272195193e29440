"""Brokers of different sizes."""

from dataclasses import replace
from itertools import cycle, islice
from typing import Final

from broker_ctl.simulation.model.scenario import Event, EventKind
from broker_ctl.simulation.scenarios.draft import Draft, Size, everyday
from broker_ctl.simulation.scenarios.shapes import DAY_MIN

_FACTORS: Final = (1.0, 2.0, 0.5, 1.0)
_WEAKER_FROM_MIN: Final = 12 * 60
_WEAKER_UNTIL_MIN: Final = 16 * 60
_WEAKER: Final = 0.7


def mixed_hardware(size: Size) -> Draft:
    """Half, normal and double brokers; each noon a double one loses 30 % for four hours."""
    weak = size.broker_ids[_FACTORS.index(2.0)]
    return replace(
        everyday(size),
        factors=tuple(islice(cycle(_FACTORS), size.brokers)),
        events=tuple(
            Event(day + minute, weak, EventKind.CAPACITY, factor)
            for day in range(0, size.minutes, DAY_MIN)
            for minute, factor in ((_WEAKER_FROM_MIN, _WEAKER), (_WEAKER_UNTIL_MIN, 1.0))
        ),
    )
