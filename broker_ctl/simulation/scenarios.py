"""The twelve scenarios by name, and what they are drawn from (docs: load-history-sources)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import cycle, islice, pairwise
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.errors import SettingsError
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import (
    MEAN_USAGE,
    MOST_CELLS,
    MOST_MINUTES,
    Rates,
    Scenario,
    ScenarioEvent,
    ScenarioEventKind,
    TopicShares,
    Traffic,
    broker_ids,
    random_owners,
)

# What makes traffic restless: noise with a memory, and bursts.
#
# Docs: load-history-sources. A level multiplies a bundle's traffic; shape (minutes,
# bundles).


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


# How traffic goes through a day: waves, ramps, crowds, switches.


DAY_MIN: Final = 1440


def daily(minutes: int, amplitudes: Level, lags_min: Level) -> Level:
    """A wave a day for each bundle, shape (minutes, bundles), mean 1 over a day.

    Args:
        minutes: how many.
        amplitudes: of each bundle, below 1.
        lags_min: how much later than the first region's the day of each bundle is.
    """
    turn = 2 * np.pi * (np.arange(minutes)[:, None] - lags_min) / DAY_MIN
    return 1 + amplitudes * np.sin(turn)


def ramp(minutes: int, start: int, rise_min: int) -> Level:
    """From 0 at ``start`` to 1 ``rise_min`` later, in a straight line; shape (minutes,)."""
    return np.clip((np.arange(minutes) - start) / rise_min, 0.0, 1.0)


def crowd(minutes: int, start: int, stay_min: int, rise_min: int) -> Level:
    """Up by a ramp at ``start``, down by one ``stay_min`` later; shape (minutes,)."""
    return ramp(minutes, start, rise_min) - ramp(minutes, start + stay_min, rise_min)


def switching(
    rng: np.random.Generator, minutes: int, bundles: int, span_min: tuple[int, int]
) -> NDArray[np.bool_]:
    """On and off, each time for a number of minutes within ``span_min``; (minutes, bundles)."""
    shortest, longest = span_min
    spans = rng.integers(shortest, longest, size=(minutes // shortest + 1, bundles), endpoint=True)
    ends = np.minimum(np.cumsum(spans, axis=0), minutes)
    flips = np.zeros((minutes + 1, bundles), dtype=np.int64)
    np.add.at(flips, (ends, np.arange(bundles)[None, :]), 1)
    is_on: NDArray[np.bool_] = np.cumsum(flips[:-1], axis=0) % 2 == 0
    return is_on


# Who is there: tenants, their bundles and topics, and what each bundle carries on average.
#
# Docs: load-history-sources.


# Sizes of namespaces in relation to each other. The largest has about 55 bundles: a namespace may
# have 128, and splits need room.
_SIZES: Final = (2.5, 1.5, 1.0, 0.6, 0.4)
_MEAN_SIZE: Final = 25
_FEWEST_NAMESPACES: Final = 16
_NAMESPACES_PER_TENANT: Final = 2
_REGIONS: Final = 3

_BASE_SIGMA: Final = 1.2
_AMPLITUDE: Final = (0.35, 0.12)
_AMPLITUDE_LIMITS: Final = (0.0, 0.9)
# Medians and sigmas of log-normal variables.
_MESSAGE_BYTES: Final = (1024.0, 0.5)
_FAN_OUT: Final = (1.5, 0.5)
_TOPICS: Final = (10.0, 0.7)
_TOPICS_LIMITS: Final = (3, 40)
# Below 1: a few topics of a bundle carry more than the many.
_SHARE_EVENNESS: Final = 0.75


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """The bundles of a cluster; the arrays have one value for each, in the same order.

    Attributes:
        bases: mean bytes a second, in and out together, in relation to each other.
        message_bytes: mean size of a message.
        fan_out: bytes out over bytes in.
        amplitudes: of the daily wave.
        lags_min: how much later than the first region's the day is.
    """

    bundles: tuple[Bundle, ...]
    topics: tuple[TopicShares, ...]
    bases: Level
    message_bytes: Level
    fan_out: Level
    amplitudes: Level
    lags_min: Level

    @property
    def tenants(self) -> tuple[str, ...]:
        """The tenant of each bundle."""
        return tuple(bundle.namespace.tenant for bundle in self.bundles)


def generate_population(rng: np.random.Generator, bundles: int) -> Population:
    """Generate a population of bundles; each tenant is in one region."""
    rings = _rings(bundles)
    members = tuple(bundle for ring in rings for bundle in ring.bundles)
    regions = [
        index // _NAMESPACES_PER_TENANT % _REGIONS
        for index, ring in enumerate(rings)
        for _ in ring.bundles
    ]
    return Population(
        bundles=members,
        topics=_topics(rng, members),
        bases=rng.lognormal(0, _BASE_SIGMA, bundles),
        message_bytes=_log_normal(rng, _MESSAGE_BYTES, bundles),
        fan_out=_log_normal(rng, _FAN_OUT, bundles),
        amplitudes=rng.normal(*_AMPLITUDE, bundles).clip(*_AMPLITUDE_LIMITS),
        lags_min=np.array(regions) * (DAY_MIN / _REGIONS),
    )


def _rings(bundles: int) -> list[Ring]:
    """Rings of many sizes with ``bundles`` bundles in total."""
    count = max(_FEWEST_NAMESPACES, bundles // _MEAN_SIZE)
    weights = np.resize(_SIZES, count)
    # Rounding the running sum keeps the total; no namespace is left without a bundle.
    ends = np.rint(np.cumsum(weights) / weights.sum() * (bundles - count)).astype(int)
    sizes = np.diff(ends, prepend=0) + 1
    # As many digits as the last one has: the order of the names is that of the numbers.
    digits = len(str(count))
    return [
        Ring.even(
            Namespace(
                f"tenant-{index // _NAMESPACES_PER_TENANT + 1:0{digits}}",
                f"ns-{index + 1:0{digits}}",
            ),
            int(size),
        )
        for index, size in enumerate(sizes)
    ]


def _topics(rng: np.random.Generator, bundles: tuple[Bundle, ...]) -> tuple[TopicShares, ...]:
    """A few to many topics in each, at random places, with random shares."""
    counts = np.rint(_log_normal(rng, _TOPICS, len(bundles))).clip(*_TOPICS_LIMITS).astype(int)
    ends = np.concatenate([[0], np.cumsum(counts)])
    lows = np.repeat([bundle.range.low for bundle in bundles], counts)
    highs = np.repeat([bundle.range.high for bundle in bundles], counts)
    positions = rng.integers(lows, highs)
    positions = positions[np.lexsort((positions, np.repeat(np.arange(len(bundles)), counts)))]
    parts = rng.standard_gamma(_SHARE_EVENNESS, len(positions))
    shares = parts / np.repeat(np.add.reduceat(parts, ends[:-1]), counts)
    return tuple(
        TopicShares(tuple(positions[first:last].tolist()), tuple(shares[first:last].tolist()))
        for first, last in pairwise(ends)
    )


def _log_normal(
    rng: np.random.Generator, median_and_sigma: tuple[float, float], count: int
) -> NDArray[np.float64]:
    median, sigma = median_and_sigma
    return median * rng.lognormal(0, sigma, count)


# A scenario in the making, and how it is brought to the size of its cluster.


_MEAN_BROKER_BYTES_S: Final = 300e6
BUNDLES_PER_BROKER: Final = 50
# With smaller messages a broker would be short of messages before it is short of bytes.
_LEAST_MESSAGE_BYTES: Final = 256.0


class RandomStream(IntEnum):
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

    def rng(self, stream: RandomStream) -> np.random.Generator:
        """A stream from its beginning."""
        return np.random.Generator(np.random.PCG64(self.seed)).spawn(len(RandomStream))[stream]


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
    events: tuple[ScenarioEvent, ...] = ()

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
            random_owners(self.size.rng(RandomStream.OWNERS), ids, self.odds, self.load.shape[1]),
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
    return generate_population(size.rng(RandomStream.POPULATION), size.brokers * BUNDLES_PER_BROKER)


def steady(size: Size, population: Population) -> Draft:
    """Noise, and nothing else; brokers alike, a random owner for each bundle."""
    noise = autoregressive_noise(
        size.rng(RandomStream.NOISE), size.minutes, len(population.bundles)
    )
    even = (1.0,) * size.brokers
    return Draft(size, population, population.bases * noise, 1.0, even, even, size.brokers)


def everyday(size: Size, population: Population | None = None) -> Draft:
    """Days in three regions, noise and bursts; of the usual population, unless one is given."""
    people = population or population_of(size)
    draft = steady(size, people)
    waves = daily(size.minutes, people.amplitudes, people.lags_min)
    bursts = add_spikes(size.rng(RandomStream.SPIKES), size.minutes, len(people.bundles))
    return replace(draft, load=draft.load * waves * bursts)


def _rates(values: NDArray[np.float64]) -> Rates:
    return values.astype(np.float32)


# Consumers that come and go all the time.


_ONE_IN: Final = 3
_SPAN_MIN: Final = (3, 20)


def flapping_consumers(size: Size) -> Draft:
    """A third of the bundles lose and regain all consumers every few minutes."""
    draft = everyday(size)
    rng = size.rng(RandomStream.STORY)
    bundles = len(draft.population.bundles)
    members = rng.choice(bundles, bundles // _ONE_IN, replace=False)
    consuming = np.ones_like(draft.load)
    consuming[:, members] = switching(rng, size.minutes, len(members), _SPAN_MIN)
    return replace(draft, consuming=consuming)


# What is too large to stay whole, and what cannot be made smaller.


# In mean brokers.
_GIANT_BUNDLE: Final = 0.7
_GIANT_TOPIC: Final = 0.5
_BESIDE_GIANT_TOPIC: Final = 0.1
_EVEN_TOPICS: Final = 240
# Many topics together, and the one that everybody uses, have a flatter day than most bundles.
_GIANTS_AMPLITUDE: Final = 0.1


def giant_bundle(size: Size) -> Draft:
    """One bundle of many equal topics carries 70 % of what a mean broker does."""
    population, index = _choose_giant(size)
    topics = TopicShares.even(population.bundles[index], _EVEN_TOPICS)
    return everyday(size, _grow(size, population, index, topics, _GIANT_BUNDLE))


def giant_topic(size: Size) -> Draft:
    """One topic carries half of what a mean broker does; its bundle has others beside it."""
    population, index = _choose_giant(size)
    before = population.topics[index]
    middle = len(before.shares) // 2
    brokers = _GIANT_TOPIC + _BESIDE_GIANT_TOPIC
    shrunk = _BESIDE_GIANT_TOPIC / brokers / (1 - before.shares[middle])
    shares = [share * shrunk for share in before.shares]
    shares[middle] = _GIANT_TOPIC / brokers
    topics = TopicShares(before.positions, tuple(shares))
    return everyday(size, _grow(size, population, index, topics, brokers))


def _choose_giant(size: Size) -> tuple[Population, int]:
    population = population_of(size)
    return population, int(size.rng(RandomStream.STORY).integers(len(population.bundles)))


def _grow(
    size: Size, population: Population, index: int, topics: TopicShares, brokers: float
) -> Population:
    """The population with one bundle that carries as much as several mean brokers."""
    bases, amplitudes = population.bases.copy(), population.amplitudes.copy()
    part = brokers / size.brokers
    bases[index] = (bases.sum() - bases[index]) * part / (1 - part)
    amplitudes[index] = _GIANTS_AMPLITUDE
    everyones = list(population.topics)
    everyones[index] = topics
    return replace(population, bases=bases, amplitudes=amplitudes, topics=tuple(everyones))


# Brokers of different sizes.


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
            ScenarioEvent(day + minute, weak, ScenarioEventKind.CAPACITY, factor)
            for day in range(0, size.minutes, DAY_MIN)
            for minute, factor in ((_WEAKER_FROM_MIN, _WEAKER), (_WEAKER_UNTIL_MIN, 1.0))
        ),
    )


# Brokers that die, restart, come and go.


_HOUR_MIN = 60
_DEATHS_MIN = (5 * _HOUR_MIN, 14 * _HOUR_MIN)
_DEAD_MIN = 4 * _HOUR_MIN
_RESTARTS_FROM_MIN = 8 * _HOUR_MIN
_RESTART_EVERY_MIN = 15
_RESTART_DRAIN_MIN = 2
_RESTART_DOWN_MIN = 3
_SCALE_AT_MIN = 6 * _HOUR_MIN
_LEAVE_EVERY_MIN = 5
_LEAVE_DRAIN_MIN = 30


def broker_death(size: Size) -> Draft:
    """A broker dies and comes back hours later; later in the day another one does."""
    events = [
        event
        for broker_id, minute in zip(size.broker_ids[1:], _DEATHS_MIN, strict=False)
        for event in (
            ScenarioEvent(minute, broker_id, ScenarioEventKind.DOWN),
            ScenarioEvent(minute + _DEAD_MIN, broker_id, ScenarioEventKind.UP),
        )
    ]
    return replace(everyday(size), events=tuple(events))


def rolling_restart(size: Size) -> Draft:
    """One broker after another is drained, stops and comes back."""
    events = []
    for index, broker_id in enumerate(size.broker_ids):
        drain = _RESTARTS_FROM_MIN + index * _RESTART_EVERY_MIN
        down = drain + _RESTART_DRAIN_MIN
        events += [
            ScenarioEvent(drain, broker_id, ScenarioEventKind.DRAIN),
            ScenarioEvent(down, broker_id, ScenarioEventKind.DOWN),
            ScenarioEvent(down + _RESTART_DOWN_MIN, broker_id, ScenarioEventKind.UP),
        ]
    return replace(everyday(size), events=tuple(events))


def scale_out(size: Size) -> Draft:
    """Half of the brokers carry everything, until the other half comes."""
    half = size.brokers // 2
    coming = size.broker_ids[half:]
    return replace(
        everyday(size),
        loaded=half,
        odds=(1.0,) * half + (0.0,) * len(coming),
        absent=frozenset(coming),
        events=tuple(
            ScenarioEvent(_SCALE_AT_MIN, broker_id, ScenarioEventKind.UP) for broker_id in coming
        ),
    )


def scale_in(size: Size) -> Draft:
    """All brokers carry what half of them can; the other half is drained and stops."""
    half = size.brokers // 2
    events = []
    for index, broker_id in enumerate(size.broker_ids[half:]):
        drain = _SCALE_AT_MIN + index * _LEAVE_EVERY_MIN
        events += [
            ScenarioEvent(drain, broker_id, ScenarioEventKind.DRAIN),
            ScenarioEvent(drain + _LEAVE_DRAIN_MIN, broker_id, ScenarioEventKind.DOWN),
        ]
    return replace(everyday(size), loaded=half, events=tuple(events))


# Brokers that begin with unequal parts.


_FIRST_OVER_LAST = 4.0


def steady_skew(size: Size) -> Draft:
    """Noise only; the first broker begins with about four times as much as the last one."""
    odds = np.geomspace(_FIRST_OVER_LAST, 1.0, size.brokers)
    return replace(steady(size, population_of(size)), odds=tuple(odds.tolist()))


# Tenants that draw a crowd, come and leave.


_TENANCY_HOUR_MIN: Final = 60
_CROWDS_AT_MIN: Final = (9 * _TENANCY_HOUR_MIN, 19 * _TENANCY_HOUR_MIN)
_CROWD_LATE_MIN: Final = 15
_CROWD_STAYS_MIN: Final = (60, 120)
_CROWD_RISE_MIN: Final = 5
_CROWD_FACTOR: Final = 4.0
_CROWD_PART: Final = 0.1

_COME_AT_MIN: Final = (6 * _TENANCY_HOUR_MIN, 13 * _TENANCY_HOUR_MIN)
_LEAVE_AT_MIN: Final = 18 * _TENANCY_HOUR_MIN
_MOVE_IN_MIN: Final = 30
_COMING_PART: Final = 0.12
_LEAVING_PART: Final = 0.1
_IDLE: Final = 0.01


def flash_crowd(size: Size) -> Draft:
    """Twice a day some tenants have four times their traffic for one to two hours."""
    draft = everyday(size)
    rng = size.rng(RandomStream.STORY)
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
    *coming, leaving = choose_tenants(size.rng(RandomStream.STORY), draft.population, parts)
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


# The twelve scenarios by name (docs: load-history-sources).


BROKERS: Final = 10
_MOST_HOURS: Final = MOST_MINUTES // 60


@dataclass(frozen=True, slots=True)
class _Entry:
    """A builder with its own seed; ``is_daily`` if a day resembles the one before it."""

    build: Callable[[Size], Draft]
    seed: int
    is_daily: bool = False


_ENTRIES: Final[Mapping[str, _Entry]] = MappingProxyType(
    {
        "steady-skew": _Entry(steady_skew, 1, is_daily=True),
        "diurnal": _Entry(everyday, 2, is_daily=True),
        "flash-crowd": _Entry(flash_crowd, 3, is_daily=True),
        "giant-bundle": _Entry(giant_bundle, 4, is_daily=True),
        "giant-topic": _Entry(giant_topic, 5, is_daily=True),
        "broker-death": _Entry(broker_death, 6),
        "rolling-restart": _Entry(rolling_restart, 7),
        "scale-out": _Entry(scale_out, 8),
        "scale-in": _Entry(scale_in, 9),
        "mixed-hardware": _Entry(mixed_hardware, 10, is_daily=True),
        "tenant-onboarding": _Entry(tenant_onboarding, 11),
        "flapping-consumers": _Entry(flapping_consumers, 12, is_daily=True),
    }
)
NAMES: Final[tuple[str, ...]] = tuple(_ENTRIES)


def scenario(
    name: str, *, brokers: int | None = None, hours: int = 24, seed: int | None = None
) -> Scenario:
    """One of `NAMES`; equal arguments give equal scenarios, to the bit.

    Args:
        name: which.
        brokers: how many are ever there, 10 if not said.
        hours: how long; what would happen later does not.
        seed: another one than the scenario's own.

    Raises:
        SettingsError: no such scenario, or one that is too small or too large.
    """
    entry = _entry(name)
    if not 1 <= hours <= _MOST_HOURS:
        raise SettingsError(f"scenario {name}: {hours} hours; 1 to {_MOST_HOURS}")
    count = BROKERS if brokers is None else brokers
    most = MOST_CELLS // (hours * 60 * BUNDLES_PER_BROKER)
    if not 2 <= count <= most:
        raise SettingsError(f"scenario {name}: {count} brokers; 2 to {most} for {hours} hours")
    own = entry.seed if seed is None else seed
    if own < 0:
        raise SettingsError(f"scenario {name}: seed {own}; 0 or more")
    size = Size(count, hours * 60, own)
    return entry.build(size).scenario(name)


def is_daily(name: str) -> bool:
    """Whether a day of it resembles the one before, so that 48 hours say more than 24.

    Raises:
        SettingsError: no such scenario.
    """
    return _entry(name).is_daily


def _entry(name: str) -> _Entry:
    entry = _ENTRIES.get(name)
    if entry is None:
        raise SettingsError(f"scenario {name!r}: one of {', '.join(NAMES)}")
    return entry
