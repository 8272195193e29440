"""What the brokers report at the end of a minute."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import BrokerLoad, BundleStats
from broker_ctl.simulation.replay.brokers import Broker
from broker_ctl.simulation.replay.cluster import NOBODY, Cluster, Floats


@dataclass(frozen=True, slots=True, eq=False)
class Reports:
    """Load reports of all brokers, at one moment.

    Attributes:
        minute: the minute whose load they report.
        loads: by broker id.
        bundles: all bundles at that time.
        owned: indexes of the reported ones among them.
        rates: of each of these, shape (4, owned).
        topics: of each of these.
        shape: of the cluster at that time.
    """

    minute: int
    loads: Mapping[str, BrokerLoad]
    bundles: tuple[Bundle, ...]
    owned: NDArray[np.int64]
    rates: Floats
    topics: NDArray[np.int64]
    shape: int


def reports_of(cluster: Cluster, minute: int) -> Reports:
    """The reports of all live brokers on the bundles that they own."""
    owned: NDArray[np.int64] = np.flatnonzero(cluster.owners != NOBODY)
    rates: Floats = cluster.rates[:, owned]
    subranges = [cluster.subranges[place] for place in owned.tolist()]
    lines: dict[int, dict[str, BundleStats]] = {}
    numbers = cluster.owners[owned].tolist()
    # A topic has a producer and a consumer.
    topics = [parcel.topics for parcel in subranges]
    stats = map(BundleStats, *rates.tolist(), topics, topics, topics)
    for number, parcel, line in zip(numbers, subranges, stats, strict=True):
        lines.setdefault(number, {})[parcel.text] = line
    totals = cluster.totals(cluster.rates)
    return Reports(
        minute=minute,
        loads={
            broker.broker_id: _load(broker, minute, lines.get(broker.number, {}), totals)
            for broker in cluster.present
        },
        bundles=tuple(parcel.bundle for parcel in cluster.subranges),
        owned=owned,
        rates=rates,
        topics=np.array(topics, dtype=np.int64),
        shape=cluster.shape,
    )


def empty_report(broker: Broker) -> BrokerLoad:
    """The report of a broker that has just started."""
    return BrokerLoad(broker.broker_id, broker.capacity.usage_by(BundleStats()))


def _load(
    broker: Broker, minute: int, lines: Mapping[str, BundleStats], totals: Floats
) -> BrokerLoad:
    total = BundleStats(*totals[:, broker.number].tolist())
    usage = broker.capacity.usage_by(total)
    return BrokerLoad(broker.broker_id, usage, lines, updated_ms=minute * 60_000)
