"""Traces to replay: a random scenario for each seed, or a recorded cluster.

A recorded day is unique: its traffic cannot be randomised. There a seed draws who has
which bundle at the start, in proportion to what the brokers can take; seed 0 leaves the owners as
they were recorded. What several seeds say is then how much depends on the start, and not how
another day would have gone.
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
    """Something that is at hand wherever a task runs, such as Spark's broadcasts."""

    @property
    def value(self) -> Scenario:
        """It."""
        ...


@dataclass(frozen=True, slots=True)
class Trace:
    """What is replayed.

    Attributes:
        name: as the tables have it.
        of_seed: the scenario, for a seed.
    """

    name: str
    of_seed: Callable[[int], Scenario]


def synthetic_trace(source: Source) -> Trace:
    """A named scenario."""
    return Trace(source.name, partial(_synthetic, source))


def recorded_trace(name: str, recorded: Held) -> Trace:
    """What was recorded of a cluster."""
    return Trace(name, partial(_recorded, recorded))


def with_start(recorded: Scenario, seed: int) -> Scenario:
    """The same, with owners that are drawn; as they are for seed 0."""
    if seed == AS_RECORDED:
        return recorded
    there = {name: each for name, each in recorded.brokers.items() if name not in recorded.absent}
    odds = [capacity.bytes_s for capacity in there.values()]
    draw = np.random.Generator(np.random.PCG64(seed))
    owners = random_owners(draw, tuple(there), odds, len(recorded.traffic.bundles))
    return replace(recorded, owners=owners)


def _synthetic(source: Source, seed: int) -> Scenario:
    return scenario_of(replace(source, seed=seed))


def _recorded(recorded: Held, seed: int) -> Scenario:
    return with_start(recorded.value, seed)
