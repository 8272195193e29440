"""Scenarios small enough to be followed by hand."""

from collections.abc import Mapping, Sequence

import numpy as np

from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import Scenario, ScenarioEvent, TopicShares, Traffic

NAMESPACE = Namespace("tenant", "ns")
MB = 1e6
# Bytes are what they are short of: 100 MB/s fill one.
STRONG = Capacity(msg_rate=1e9, bytes_s=100 * MB)


def bundles_of(count: int) -> tuple[Bundle, ...]:
    return Ring.even(NAMESPACE, count).bundles


def small(
    loads_mb: Sequence[float] | Sequence[Sequence[float]],
    owners: Sequence[str],
    *,
    minutes: int = 6,
    brokers: Mapping[str, Capacity] | Sequence[str] = ("a", "b"),
    topics: Sequence[TopicShares] = (),
    events: Sequence[ScenarioEvent] = (),
    absent: Sequence[str] = (),
) -> Scenario:
    """A scenario of one namespace, with messages of 10 kB.

    Args:
        loads_mb: MB/s of each bundle, constant, or one row for each minute.
    """
    rows = np.array(loads_mb, dtype=np.float64) * MB
    table = np.tile(rows, (minutes, 1)) if rows.ndim == 1 else rows
    octets, messages = (table / 2).astype(np.float32), (table / 20_000).astype(np.float32)
    bundles = bundles_of(table.shape[1])
    shares = tuple(topics) or tuple(TopicShares.even(bundle, 4) for bundle in bundles)
    traffic = Traffic(bundles, shares, messages, messages, octets, octets)
    strong = brokers if isinstance(brokers, Mapping) else dict.fromkeys(brokers, STRONG)
    return Scenario("small", traffic, strong, tuple(owners), frozenset(absent), tuple(events))
