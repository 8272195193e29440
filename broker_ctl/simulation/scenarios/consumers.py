"""Consumers that come and go all the time."""

from dataclasses import replace
from typing import Final

import numpy as np

from broker_ctl.simulation.scenarios.draft import Draft, Size, Stream, everyday
from broker_ctl.simulation.scenarios.shapes import switching

_ONE_IN: Final = 3
_SPAN_MIN: Final = (3, 20)


def flapping_consumers(size: Size) -> Draft:
    """A third of the bundles lose and regain all consumers every few minutes."""
    draft = everyday(size)
    rng = size.rng(Stream.STORY)
    bundles = len(draft.population.bundles)
    members = rng.choice(bundles, bundles // _ONE_IN, replace=False)
    consuming = np.ones_like(draft.load)
    consuming[:, members] = switching(rng, size.minutes, len(members), _SPAN_MIN)
    return replace(draft, consuming=consuming)
