"""A scenario in the making, and how it is brought to the size of its cluster."""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.cluster import MEAN_USAGE, broker_ids, random_owners
from broker_ctl.simulation.model.scenario import Event, Rates, Scenario, Traffic
from broker_ctl.simulation.scenarios.noise import Level, add_spikes, autoregressive_noise
from broker_ctl.simulation.scenarios.population import Population, generate_population
from broker_ctl.simulation.scenarios.shapes import daily

_MEAN_BROKER_BYTES_S: Final = 300e6
BUNDLES_PER_BROKER: Final = 50
# With smaller messages a broker would be short of messages before it is short of bytes.
_LEAST_MESSAGE_BYTES: Final = 256.0


class Stream(IntEnum):
    """The sources of draws: what one subject draws does not change another's."""

    POPULATION = 0
    OWNERS = 1
    NOISE = 2
    SPIKES = 3
    STORY = 4


@dataclass(frozen=True, slots=True)
class Size:
    """How large a scenario is, and the seed of all that is drawn for it."""

    brokers: int
    minutes: int
    seed: int

    @property
    def broker_ids(self) -> tuple[str, ...]:
        """Of all brokers that are ever there."""
        return broker_ids(self.brokers)

    def rng(self, stream: Stream) -> np.random.Generator:
        """A stream from its beginning."""
        return np.random.Generator(np.random.PCG64(self.seed)).spawn(len(Stream))[stream]


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """What a builder composes.

    Attributes:
        load: bytes a second, in and out together, in relation to each other; (minutes, bundles).
        consuming: what part of the out side is there, 0 to 1; (minutes, bundles).
        factors: capacity of each broker in relation to each other.
        odds: of each broker to have a bundle at the start, in relation to each other.
        loaded: how many mean brokers the traffic fills to the mean usage.
    """

    size: Size
    population: Population
    load: Level
    consuming: Level | float
    factors: tuple[float, ...]
    odds: tuple[float, ...]
    loaded: int
    absent: frozenset[str] = frozenset()
    events: tuple[Event, ...] = ()

    def scenario(self, name: str) -> Scenario:
        """The traffic at its full size, and the capacities that it fills to the mean usage."""
        ids = self.size.broker_ids
        mean_factor = sum(self.factors) / len(self.factors)
        bytes_s = _MEAN_BROKER_BYTES_S / MEAN_USAGE / mean_factor
        capacity = Capacity(bytes_s / _LEAST_MESSAGE_BYTES, bytes_s)
        events = sorted(self.events, key=lambda event: event.minute)
        return Scenario(
            name,
            self._traffic(),
            {id_: capacity.times(factor) for id_, factor in zip(ids, self.factors, strict=True)},
            random_owners(self.size.rng(Stream.OWNERS), ids, self.odds, self.load.shape[1]),
            self.absent,
            tuple(event for event in events if event.minute < self.size.minutes),
        )

    def _traffic(self) -> Traffic:
        bytes_in = self.load / (1 + self.population.fan_out)
        bytes_out = bytes_in * self.population.fan_out * self.consuming
        total = (bytes_in + bytes_out).sum(axis=1).mean()
        scale = self.loaded * _MEAN_BROKER_BYTES_S / total
        messages = scale / self.population.message_bytes
        return Traffic(
            self.population.bundles,
            self.population.topics,
            _rates(bytes_in * messages),
            _rates(bytes_out * messages),
            _rates(bytes_in * scale),
            _rates(bytes_out * scale),
        )


def population_of(size: Size) -> Population:
    """The population of a cluster of that size."""
    return generate_population(size.rng(Stream.POPULATION), size.brokers * BUNDLES_PER_BROKER)


def steady(size: Size, population: Population) -> Draft:
    """Noise, and nothing else; brokers alike, a random owner for each bundle."""
    noise = autoregressive_noise(size.rng(Stream.NOISE), size.minutes, len(population.bundles))
    even = (1.0,) * size.brokers
    return Draft(size, population, population.bases * noise, 1.0, even, even, size.brokers)


def everyday(size: Size, population: Population | None = None) -> Draft:
    """Days in three regions, noise and bursts; of the usual population, unless one is given."""
    people = population or population_of(size)
    draft = steady(size, people)
    waves = daily(size.minutes, people.amplitudes, people.lags_min)
    bursts = add_spikes(size.rng(Stream.SPIKES), size.minutes, len(people.bundles))
    return replace(draft, load=draft.load * waves * bursts)


def _rates(values: NDArray[np.float64]) -> Rates:
    return values.astype(np.float32)
