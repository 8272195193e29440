"""What is too large to stay whole, and what cannot be made smaller."""

from dataclasses import replace
from typing import Final

from broker_ctl.simulation.model.scenario import TopicShares
from broker_ctl.simulation.scenarios.draft import Draft, Size, Stream, everyday, population_of
from broker_ctl.simulation.scenarios.population import Population

# In mean brokers.
_GIANT_BUNDLE: Final = 0.7
_GIANT_TOPIC: Final = 0.5
_BESIDE_GIANT_TOPIC: Final = 0.1
_EVEN_TOPICS: Final = 240
# Many topics together, and the one that everybody uses, have a flatter day than most bundles.
_AMPLITUDE: Final = 0.1


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
    return population, int(size.rng(Stream.STORY).integers(len(population.bundles)))


def _grow(
    size: Size, population: Population, index: int, topics: TopicShares, brokers: float
) -> Population:
    """The population with one bundle that carries as much as several mean brokers."""
    bases, amplitudes = population.bases.copy(), population.amplitudes.copy()
    part = brokers / size.brokers
    bases[index] = (bases.sum() - bases[index]) * part / (1 - part)
    amplitudes[index] = _AMPLITUDE
    everyones = list(population.topics)
    everyones[index] = topics
    return replace(population, bases=bases, amplitudes=amplitudes, topics=tuple(everyones))
