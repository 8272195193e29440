"""Who is there: tenants, their bundles and topics, and what each bundle carries on average.

Docs: load-history-sources.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.model.namespace import Ring
from broker_ctl.simulation.model.scenario import TopicShares
from broker_ctl.simulation.scenarios.noise import Level
from broker_ctl.simulation.scenarios.shapes import DAY_MIN

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
