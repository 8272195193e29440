"""Traffic as a data plane serves it: asked for bundle by bundle, at any moment."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import BundleStats
from broker_ctl.simulation.model.capacity import Capacity


class TrafficSource(Protocol):
    """Topics with their traffic over time; seconds are those of the workload itself."""

    @property
    def has_topics(self) -> bool:
        """Whether there is anything to serve."""
        ...

    def capacity_of(self, broker_id: str) -> Capacity:
        """What a broker can take, if nobody says otherwise."""
        ...

    def stats(self, bundle: Bundle, t_s: float) -> BundleStats:
        """A bundle's traffic ``t_s`` seconds after the start."""
        ...

    def topic_stats(self, bundle: Bundle, t_s: float) -> Mapping[str, BundleStats]:
        """The traffic of each of its topics, by complete name."""
        ...

    def busy_topics(self, bundle: Bundle, t_s: float) -> Iterable[tuple[str, int]]:
        """Topics with traffic: complete name, and place on the ring."""
        ...
