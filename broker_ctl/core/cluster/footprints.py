"""Footprints of bundles: what they take of a broker, and what brokers carry."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from math import fsum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.cluster.columns import Floats, column
from broker_ctl.core.cluster.view import BrokerView, BundleView, InFlight
from broker_ctl.core.model.load import BundleStats, LoadVector
from broker_ctl.core.model.names import NO_PARTITIONS, Bundle, TopicPartitions

# The load of each bundle on its broker, measured by the reports.
#
# Usage follows bytes: a broker's usage and its CPU are divided among its bundles by throughput.


_UNREPORTED: Final = BundleStats()


@dataclass(frozen=True, slots=True, eq=False)
class Footprints:
    """Columns in the order of the bundles.

    Attributes:
        current: each bundle's line in its owner's report, if it is there.
        load_vectors: the load of each.
    """

    current: Sequence[BundleStats | None]
    load_vectors: Sequence[LoadVector]


class FootprintGauge:
    """Measures bundles by the reports of live brokers, which it numbers in the order of their ids.

    Usage comes from the report of the owner, else from the newest report with the bundle, else from
    its throughput at the cluster's mean cost of a byte.
    """

    def __init__(self, brokers: Mapping[str, BrokerView]) -> None:
        self._brokers = list(brokers.values())
        self._numbers = {broker_id: number for number, broker_id in enumerate(brokers)}
        self._bytes = [reported_bytes(each) for each in self._brokers]
        self._used = [mean_brokers(each) for each in self._brokers]
        self._cores = [cores_of(each) for each in self._brokers]

    def measure(self, bundles: Sequence[BundleView], names: Sequence[str]) -> Footprints:
        """Measure bundles, by their names in reports."""
        numbers, reports = self._numbers, [each.load.bundles for each in self._brokers]
        current: list[BundleStats | None] = []
        lines: list[BundleStats] = []
        reporters: list[int] = []
        missing: list[int] = []
        for row, (bundle_view, name) in enumerate(zip(bundles, names, strict=True)):
            reporter = numbers.get(bundle_view.owner or "", -1)
            line = None if reporter < 0 else reports[reporter].get(name)
            if line is None:
                missing.append(row)
            current.append(line)
            lines.append(line or _UNREPORTED)
            reporters.append(reporter)
        newest = self._newest_reporters({names[row] for row in missing})
        for row in missing:
            reporters[row] = newest.get(names[row], -1)
            if reporters[row] >= 0:
                lines[row] = reports[reporters[row]][names[row]]
        by = np.array(reporters, np.int32)
        return Footprints(current, self._load_vectors(bundles, current, lines, by))

    def _newest_reporters(self, names: set[str]) -> Mapping[str, int]:
        """The number of the broker with the newest report of each bundle."""
        found: dict[str, int] = {}
        # Looked for bundle by bundle, each one without an owner would cost a look at every broker.
        for broker in sorted(self._brokers, key=_staleness):
            here = broker.load.bundles.keys() & names
            found.update(dict.fromkeys(here, self._numbers[broker.broker_id]))
            names -= here
        return found

    def _load_vectors(
        self,
        bundles: Sequence[BundleView],
        current: Sequence[BundleStats | None],
        lines: Sequence[BundleStats],
        by: NDArray[np.int32],
    ) -> list[LoadVector]:
        bytes_in = column(bundles, "load.short.msg_throughput_in")
        bytes_out = column(bundles, "load.short.msg_throughput_out")
        throughput = bytes_in + bytes_out
        messages = column(bundles, "load.long.msg_rate_in")
        messages = messages + column(bundles, "load.long.msg_rate_out")
        line_bytes = column(lines, "msg_throughput_in") + column(lines, "msg_throughput_out")
        # The last is that of no broker.
        total = np.array([*self._bytes, 0.0])[by]
        share = np.divide(line_bytes, total, out=np.zeros(len(bundles)), where=total > 0)
        topics = [
            bundle_view.load.topics if line is None else line.topics
            for bundle_view, line in zip(bundles, current, strict=True)
        ]
        found = map(
            LoadVector,
            self._part_of(self._used, by, share, throughput),
            throughput.tolist(),
            messages.tolist(),
            topics,
            repeat(1.0),
            bytes_in.tolist(),
            bytes_out.tolist(),
            [line.producers + line.consumers for line in lines],
            self._part_of(self._cores, by, share, throughput),
        )
        return list(found)

    def _part_of(
        self, amounts: Sequence[float], by: NDArray[np.int32], share: Floats, throughput: Floats
    ) -> list[float]:
        """Each bundle's part of what its broker uses, or what its bytes cost on average."""
        total = fsum(self._bytes)
        per_byte = fsum(amounts) / total if total > 0 else 0.0
        part: Floats = np.where(
            by < 0, throughput * per_byte, share * np.array([*amounts, 0.0])[by]
        )
        found: list[float] = part.tolist()
        return found


def reported_bytes(broker: BrokerView) -> float:
    """The throughput of all lines of a broker's report."""
    return fsum([line.throughput for line in broker.load.bundles.values()])


def _staleness(broker: BrokerView) -> tuple[float, str]:
    return broker.age_s, broker.broker_id


def mean_brokers(broker: BrokerView) -> float:
    """The usage of a broker, in mean brokers."""
    return broker.usage_ratio * broker.size_ratio


def cores_of(broker: BrokerView) -> float:
    """The CPU that a broker uses, in cores."""
    return broker.load.usage.cpu.usage / 100


# What each broker carries once every move in flight has ended, and the load of that.


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
