"""The usual day of the bundles that there are, from the profile of all that there ever were."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.strategies.balance.problem import Floats
from broker_ctl.core.strategies.balance.profile import HOURS

_UNKNOWN: Final = np.nan


def usual_day(hours: Iterable[tuple[Bundle, int, float]], now: Sequence[Bundle]) -> Floats:
    """Load of each bundle of now by hour of the day, shape (bundles, 24).

    Of an hour before a bundle was split off or merged, it has its part of what was there in its
    place. Of an hour that nobody knows, it has its mean.

    Args:
        hours: of the profile: bundle, hour of the day, load in any unit.
        now: different ones.
    """
    by_bundle: dict[Bundle, Floats] = {}
    for bundle, hour, value in hours:
        by_bundle.setdefault(bundle, np.full(HOURS, _UNKNOWN))[hour] = value
    load = np.array([by_bundle.get(each, np.full(HOURS, _UNKNOWN)) for each in now])
    load = load.reshape(len(now), HOURS)
    own = _means(load)
    gone = {bundle: row for bundle, row in by_bundle.items() if bundle not in set(now)}
    inherited = _inherit_hours(gone, now, own)
    load = np.where(np.isnan(load), inherited, load)
    return np.where(np.isnan(load), _means(load)[:, None], load)


def _means(load: Floats) -> Floats:
    """Of the hours that are known; 0 where none is."""
    known = ~np.isnan(load)
    counts = known.sum(axis=1)
    sums = np.where(known, load, 0.0).sum(axis=1)
    means: Floats = np.divide(sums, counts, out=np.zeros(len(load)), where=counts > 0)
    return means


def _inherit_hours(gone: Mapping[Bundle, Floats], now: Sequence[Bundle], own: Floats) -> Floats:
    """What bundles of the past leave to those of now, in parts as these have load themselves."""
    places: dict[Namespace, list[int]] = {}
    for place, bundle in enumerate(now):
        places.setdefault(bundle.namespace, []).append(place)
    found = np.full((len(now), HOURS), _UNKNOWN)
    for bundle, row in gone.items():
        heirs = [each for each in places.get(bundle.namespace, ()) if now[each].overlaps(bundle)]
        total = float(own[heirs].sum())
        known = ~np.isnan(row)
        for heir in heirs:
            part = float(own[heir]) / total if total > 0 else 1 / len(heirs)
            had = np.where(np.isnan(found[heir, known]), 0.0, found[heir, known])
            found[heir, known] = had + row[known] * part
    return found
