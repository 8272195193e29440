"""Traces to replay: a random scenario for each seed, or a recorded cluster.

A recorded day is unique: its traffic cannot be randomised. Its seed draws the initial owner of each
bundle, in proportion to the capacity of the brokers; seed 0 keeps the recorded owners. So several
seeds show how much depends on the initial owners, and not how the strategy performs on another day.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

import numpy as np

from broker_ctl.simulation.model.cluster import random_owners
from broker_ctl.simulation.model.scenario import Scenario
from broker_ctl.simulation.workload.sources import Source, scenario_of

AS_RECORDED: Final = 0


class Held(Protocol):
    """A value that is available wherever a task runs, such as a Spark broadcast."""

    @property
    def value(self) -> Scenario:
        """The value."""
        ...


@dataclass(frozen=True, slots=True)
class Trace:
    """Traffic to replay.

    Attributes:
        name: as the tables have it.
        of_seed: the scenario, for a seed.
    """

    name: str
    of_seed: Callable[[int], Scenario]


def synthetic_trace(source: Source) -> Trace:
    """The trace of a named scenario."""
    return Trace(source.name, partial(_synthetic, source))


def recorded_trace(name: str, recorded: Held) -> Trace:
    """The trace of a recorded cluster."""
    return Trace(name, partial(_recorded, recorded))


def with_start(recorded: Scenario, seed: int) -> Scenario:
    """The scenario with drawn initial owners; unchanged for seed 0."""
    if seed == AS_RECORDED:
        return recorded
    there = {name: each for name, each in recorded.brokers.items() if name not in recorded.absent}
    odds = [capacity.bytes_s for capacity in there.values()]
    rng = np.random.Generator(np.random.PCG64(seed))
    owners = random_owners(rng, tuple(there), odds, len(recorded.traffic.bundles))
    return replace(recorded, owners=owners)


def _synthetic(source: Source, seed: int) -> Scenario:
    return scenario_of(replace(source, seed=seed))


def _recorded(recorded: Held, seed: int) -> Scenario:
    return with_start(recorded.value, seed)
