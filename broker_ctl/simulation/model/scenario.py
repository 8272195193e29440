"""A scenario: bundles with their traffic minute by minute, brokers, and their events.

Docs: load-history-sources. A plain value; named ones come from
`simulation.scenarios`, recorded ones from `simulation.traced`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.simulation.model.capacity import Capacity

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


class EventKind(StrEnum):
    """What may apply_event a broker."""

    UP = "up"
    DOWN = "down"
    DRAIN = "drain"
    CAPACITY = "capacity"


@dataclass(frozen=True, slots=True)
class Event:
    """An event at a broker at the start of a minute.

    Attributes:
        kind: ``down`` without a ``drain`` before it is a death; after one it is a planned stop.
        factor: of `EventKind.CAPACITY`: the new capacity over the one in `Scenario.brokers`.
    """

    minute: int
    broker_id: str
    kind: EventKind
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
    events: tuple[Event, ...] = field(default=())
