"""A scenario: bundles with their traffic minute by minute, brokers, and their events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.model.names import Bundle
from broker_ctl.core.planning.size import DayLoad
from broker_ctl.simulation.model.capacity import Capacity

# How large a scenario may be: it is held in memory as a whole.


MOST_MINUTES: Final = 14 * 24 * 60
# Minutes, or cells of some, times bundles. Four arrays of that many rates: a quarter of a gigabyte.
MOST_CELLS: Final = 16_000_000
MOST_BUNDLES: Final = 200_000
MOST_TOPICS: Final = 1_000_000
MOST_BROKERS: Final = 10_000
MOST_EVENTS: Final = 100_000


# Common parts of all scenarios: broker ids, mean usage, initial owners.


# Of a mean broker over the whole scenario.
MEAN_USAGE: Final = 0.55


def broker_ids(count: int) -> tuple[str, ...]:
    """``broker-1`` and so on."""
    return tuple(f"broker-{number + 1}" for number in range(count))


def random_owners(
    rng: np.random.Generator, broker_ids: Sequence[str], odds: Sequence[float], bundles: int
) -> tuple[str, ...]:
    """An owner for each bundle.

    Args:
        rng: which.
        broker_ids: who may be one.
        odds: of each broker in relation to each other; those with none get nothing.
        bundles: how many.
    """
    chances = np.array(odds) / sum(odds)
    return tuple(broker_ids[number] for number in rng.choice(len(odds), bundles, p=chances))


# Delays in a simulated cluster.


_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class ReplayPace:
    """Delays, and the frequency of the leader's cycles.

    Attributes:
        report_delay_min: in minute t the leader sees the load of minute t less this.
        unload_s: from the order to the end of serving a bundle; what is sent meanwhile is lost.
        reconnect_s: from there until its clients are back.
        cycles_per_minute: the leader decides again within the minute, once all is done, where
            budgets of moves in flight have cut its plan short.
    """

    report_delay_min: int = 1
    unload_s: float = 2.0
    reconnect_s: float = 3.0
    cycles_per_minute: int = 1

    @property
    def move_s(self) -> float:
        """Time from the command of a move until clients are served again."""
        return self.unload_s + self.reconnect_s

    @property
    def most_cycles(self) -> int:
        """Cycles that there is time for in one minute; each waits for the moves of the last."""
        if self.move_s <= 0:
            return self.cycles_per_minute
        return max(1, min(self.cycles_per_minute, int(_MINUTE_S / self.move_s)))


# A scenario: bundles with their traffic minute by minute, brokers, and their events.
#
# Docs: load-history-sources. A plain value; named ones come from
# `simulation.scenarios`, recorded ones from `simulation.traced`.


Rates = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TopicShares:
    """The topics of one bundle: where they lie, and how its traffic is divided among them.

    Attributes:
        positions: places on the ring, ascending, all inside the bundle's range.
        shares: parts of the bundle's traffic, in the same order; they sum to 1.
    """

    positions: tuple[int, ...]
    shares: tuple[float, ...]

    @classmethod
    def even(cls, bundle: Bundle, topics: int) -> Self:
        """Place ``topics`` topics at equal distances, with equal shares."""
        low, width = bundle.range.low, bundle.range.high - bundle.range.low
        places = (low + width * (2 * index + 1) // (2 * topics) for index in range(topics))
        return cls(tuple(places), (1 / topics,) * topics)


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """What the bundles carry; a split bundle's traffic is divided by its topics.

    Attributes:
        bundles: as they are in the first minute; together they cover the ring of each namespace.
        topics: of each bundle, in the same order.
        msg_rate_in, msg_rate_out: messages a second, shape (cells, bundles).
        bytes_in, bytes_out: bytes a second, shape (cells, bundles).
        cell_min: minutes in a cell, in which all of them have the same rates.
    """

    bundles: tuple[Bundle, ...]
    topics: tuple[TopicShares, ...]
    msg_rate_in: Rates
    msg_rate_out: Rates
    bytes_in: Rates
    bytes_out: Rates
    cell_min: int = field(default=1, kw_only=True)

    @property
    def minutes(self) -> int:
        """How long it lasts."""
        return int(self.bytes_in.shape[0]) * self.cell_min


class ScenarioEventKind(StrEnum):
    """What may apply_event a broker."""

    UP = "up"
    DOWN = "down"
    DRAIN = "drain"
    CAPACITY = "capacity"


@dataclass(frozen=True, slots=True)
class ScenarioEvent:
    """An event at a broker at the start of a minute.

    Attributes:
        kind: ``down`` without a ``drain`` before it is a death; after one it is a planned stop.
        factor: of `EventKind.CAPACITY`: the new capacity over the one in `Scenario.brokers`.
    """

    minute: int
    broker_id: str
    kind: ScenarioEventKind
    factor: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """Traffic, brokers and events.

    Attributes:
        brokers: capacity of every broker that is ever there, by id.
        absent: those that are not there at the start.
        owners: who has each bundle at the start, in the order of ``traffic.bundles``; the same for
            every policy.
        events: by minute.
    """

    name: str
    traffic: Traffic
    brokers: Mapping[str, Capacity]
    owners: tuple[str, ...]
    absent: frozenset[str] = frozenset()
    events: tuple[ScenarioEvent, ...] = field(default=())


# The load of a scenario by the day, in mean brokers (`core.planning.size_history`).


_HOUR_MIN = 60
_DAY_HOURS = 24


def day_loads(scenario: Scenario) -> list[DayLoad]:
    """The fullest hour of each day, by the brokers of the first minute; whole days only."""
    traffic, capacities = scenario.traffic, list(scenario.brokers.values())
    msg_rate = (traffic.msg_rate_in + traffic.msg_rate_out).sum(axis=1, dtype=np.float64)
    bytes_s = (traffic.bytes_in + traffic.bytes_out).sum(axis=1, dtype=np.float64)
    mean_msg_rate = sum(each.msg_rate for each in capacities) / len(capacities)
    mean_bytes_s = sum(each.bytes_s for each in capacities) / len(capacities)
    filled = np.maximum(msg_rate / mean_msg_rate, bytes_s / mean_bytes_s)
    hours = len(filled) // _HOUR_MIN
    days = hours // _DAY_HOURS
    minutes = days * _DAY_HOURS * _HOUR_MIN
    by_hour = filled[:minutes].reshape(days, _DAY_HOURS, _HOUR_MIN).mean(axis=2)
    peaks = by_hour.max(axis=1).tolist()
    return [DayLoad(f"day {number}", peak) for number, peak in enumerate(peaks, 1)]
