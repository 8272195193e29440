"""The record of a replay: usage by minute, and all executed decisions."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.simulation.model.scenario import Scenario

Floats = NDArray[np.float64]

# Scores skip the start, before a strategy has acted.
_WARM_UP_MIN: Final = 10


class Cause(StrEnum):
    """Why a bundle changed its owner."""

    LOAD = "load"
    DRAIN = "drain"
    DEATH = "death"
    REFILL = "refill"


@dataclass(frozen=True, slots=True)
class Moved:
    """A change of a bundle's owner.

    Attributes:
        bytes_s: its bytes a second at that time, in and out.
        reason: why it moved, or why its receiver was chosen where it had lost its broker.
        cause: `Cause.REFILL`: it went to a broker that had come within the last hour.
    """

    minute: int
    bundle: Bundle
    source: str
    destination: str
    bytes_s: float
    reason: Reason
    cause: Cause


@dataclass(frozen=True, slots=True)
class Reshaped:
    """Bundles that were replaced by others: one by several, or two by one."""

    minute: int
    before: tuple[Bundle, ...]
    after: tuple[Bundle, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """A scenario under one set of rules.

    Attributes:
        brokers: all that were ever there, by id.
        usage: shape (minutes, brokers), 1.0 is full, more is more than there is; NaN: it was down.
        offered_bytes: bytes/s of all bundles, served or not, by minute.
        moves, splits, merges: in the order in which they were done.
    """

    scenario: Scenario
    brokers: tuple[str, ...]
    usage: Floats
    offered_bytes: Floats
    moves: tuple[Moved, ...]
    splits: tuple[Reshaped, ...]
    merges: tuple[Reshaped, ...]

    @property
    def max_over_mean(self) -> Floats:
        """Of the usage of the brokers that were there, by minute; 1.0 where there was no load."""
        mean = np.nanmean(self.usage, axis=1)
        most = np.nanmax(self.usage, axis=1)
        ratios: Floats = np.divide(most, mean, out=np.ones_like(mean), where=mean > 0)
        return ratios


@dataclass(slots=True)
class Record:
    """A replay while it is made."""

    usage: list[Floats] = field(default_factory=list)
    offered_bytes: list[float] = field(default_factory=list)
    moves: list[Moved] = field(default_factory=list)
    splits: list[Reshaped] = field(default_factory=list)
    merges: list[Reshaped] = field(default_factory=list)

    def finished(self, scenario: Scenario, brokers: tuple[str, ...]) -> Replay:
        """As a value."""
        return Replay(
            scenario=scenario,
            brokers=brokers,
            usage=np.array(self.usage).reshape(-1, len(brokers)),
            offered_bytes=np.array(self.offered_bytes),
            moves=tuple(self.moves),
            splits=tuple(self.splits),
            merges=tuple(self.merges),
        )


def after_warm_up(series: Floats) -> Floats:
    """A series by minute without the first ten, unless there are no others."""
    return series[_WARM_UP_MIN:] if len(series) > _WARM_UP_MIN else series
