"""What each broker carries once every move in flight has ended, and the load of that."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import fsum

from broker_ctl.core.cluster.columns import column
from broker_ctl.core.cluster.footprints import cores_of, mean_brokers, reported_bytes
from broker_ctl.core.cluster.view import BrokerView, BundleView, InFlight
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load_vector import LoadVector
from broker_ctl.core.model.topic_partitions import NO_PARTITIONS, TopicPartitions


class Carried:
    """The bundles of a view by the broker that carries them, with their names in reports."""

    def __init__(
        self,
        brokers: Iterable[str],
        bundles: Mapping[Bundle, BundleView],
        names: Sequence[str],
        moves: Mapping[Bundle, InFlight],
    ) -> None:
        self._bundles: dict[str, list[BundleView]] = {each: [] for each in brokers}
        self._names: dict[str, list[str]] = {each: [] for each in brokers}
        for bundle_view, name in zip(bundles.values(), names, strict=True):
            move = moves.get(bundle_view.bundle) if moves else None
            carrier = move.destination if move else bundle_view.owner
            if carrier in self._bundles:
                self._bundles[carrier].append(bundle_view)
                self._names[carrier].append(name)

    def joined(self, broker: BrokerView, topics: TopicPartitions) -> BrokerView:
        """The broker with its bundles and their load."""
        here, names = self._bundles[broker.broker_id], self._names[broker.broker_id]
        reported = broker.load.bundles
        left = _share_of(broker, reported.keys() - names)
        new = [
            bundle_view.load_vector
            for bundle_view, name in zip(here, names, strict=True)
            if name not in reported
        ]
        came, came_cores = fsum(each.usage_ratio for each in new), fsum(e.cpu_cores for e in new)
        loads = [each.load_vector for each in here]
        owned = frozenset([each.bundle for each in here])
        return replace(
            broker,
            owned=owned,
            expected=LoadVector(
                max(
                    0.0,
                    broker.usage_ratio + (came - left * mean_brokers(broker)) / broker.size_ratio,
                ),
                fsum(column(loads, "throughput_bytes")),
                fsum(column(loads, "msg_rate")),
                sum(each.topics for each in loads),
                broker.size_ratio,
                fsum(column(loads, "bytes_in")),
                fsum(column(loads, "bytes_out")),
                sum(each.sessions for each in loads),
                max(0.0, (1.0 - left) * cores_of(broker) + came_cores),
            ),
            served=dict(Counter(each.bundle.namespace for each in here)),
            partitions=topics.after(NO_PARTITIONS, (), owned),
        )


def _share_of(broker: BrokerView, names: Collection[str]) -> float:
    """The part of a broker that some lines of its report cause."""
    lines = broker.load.bundles
    total = reported_bytes(broker) if names else 0.0
    return fsum(lines[name].throughput / total for name in names) if total > 0 else 0.0
