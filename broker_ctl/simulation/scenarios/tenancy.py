"""Tenants that draw a crowd, come and leave."""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.simulation.scenarios.draft import Draft, Size, Stream, everyday
from broker_ctl.simulation.scenarios.noise import Level
from broker_ctl.simulation.scenarios.population import Population
from broker_ctl.simulation.scenarios.shapes import DAY_MIN, crowd, ramp

_HOUR_MIN: Final = 60
_CROWDS_AT_MIN: Final = (9 * _HOUR_MIN, 19 * _HOUR_MIN)
_CROWD_LATE_MIN: Final = 15
_CROWD_STAYS_MIN: Final = (60, 120)
_CROWD_RISE_MIN: Final = 5
_CROWD_FACTOR: Final = 4.0
_CROWD_PART: Final = 0.1

_COME_AT_MIN: Final = (6 * _HOUR_MIN, 13 * _HOUR_MIN)
_LEAVE_AT_MIN: Final = 18 * _HOUR_MIN
_MOVE_IN_MIN: Final = 30
_COMING_PART: Final = 0.12
_LEAVING_PART: Final = 0.1
_IDLE: Final = 0.01


def flash_crowd(size: Size) -> Draft:
    """Twice a day some tenants have four times their traffic for one to two hours."""
    draft = everyday(size)
    rng = size.rng(Stream.STORY)
    groups = choose_tenants(rng, draft.population, (_CROWD_PART,) * len(_CROWDS_AT_MIN))
    surge = np.ones_like(draft.load)
    for day in range(0, size.minutes, DAY_MIN):
        for at, members in zip(_CROWDS_AT_MIN, groups, strict=True):
            start = day + at + int(rng.integers(_CROWD_LATE_MIN))
            stay = int(rng.integers(*_CROWD_STAYS_MIN))
            rise = (_CROWD_FACTOR - 1) * crowd(size.minutes, start, stay, _CROWD_RISE_MIN)
            surge[:, members] += rise[:, None]
    return replace(draft, load=draft.load * surge)


def tenant_onboarding(size: Size) -> Draft:
    """Tenants whose bundles were idle move in, and later one that was busy leaves."""
    draft = everyday(size)
    parts = (*(_COMING_PART,) * len(_COME_AT_MIN), _LEAVING_PART)
    *coming, leaving = choose_tenants(size.rng(Stream.STORY), draft.population, parts)
    presence: Level = np.ones_like(draft.load)
    for at, members in zip(_COME_AT_MIN, coming, strict=True):
        presence[:, members] = _between(ramp(size.minutes, at, _MOVE_IN_MIN))
    presence[:, leaving] = _between(1 - ramp(size.minutes, _LEAVE_AT_MIN, _MOVE_IN_MIN))
    return replace(draft, load=draft.load * presence)


def choose_tenants(
    rng: np.random.Generator, population: Population, parts: tuple[float, ...]
) -> list[NDArray[np.intp]]:
    """Disjoint groups of tenants, by the places of their bundles.

    Args:
        rng: which tenants.
        population: whose.
        parts: how much of all traffic each group carries, about.
    """
    tenants = np.array(population.tenants)
    names = np.unique(tenants)
    loads = np.array([population.bases[tenants == name].sum() for name in names])
    left = [int(index) for index in rng.permutation(len(names))]
    groups = []
    for part in parts:
        members, missing = [], part * loads.sum()
        for index in tuple(left):
            # Each tenant that brings the group closer to its part of the load.
            if abs(missing - loads[index]) < missing:
                left.remove(index)
                members.append(index)
                missing -= loads[index]
        groups.append(np.flatnonzero(np.isin(tenants, names[members])))
    return groups


def _between(presence: Level) -> Level:
    """From idle to busy, as a column."""
    return (_IDLE + (1 - _IDLE) * presence)[:, None]
