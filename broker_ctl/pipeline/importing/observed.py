"""What Prometheus has of one moment of a Pulsar cluster, and the rows of history that it makes.

What nobody recorded is not made up: caches are unknown, averages over time are the values of the
moment, and changes of owner show in the rows of bundles only.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Final

from broker_ctl.core.history.cycle_rows import Batch
from broker_ctl.core.history.row_kinds import (
    BROKER_LOADS,
    BUNDLE_BOUNDARIES,
    BUNDLE_LOADS,
    CAPACITIES,
)
from broker_ctl.core.history.rows import BoundariesRow, BrokerLoadRow, BundleLoadRow, CapacityRow
from broker_ctl.core.model.names import RING_HIGH, RING_LOW, Bundle, Namespace

# Rates of a bundle, and of a topic, which is counted for its bundle.
RATES: Final = ("msg_rate_in", "msg_rate_out", "bytes_in", "bytes_out")
COUNTS: Final = ("topics", "producers", "consumers")
# What decides how full a broker is, as Pulsar weighs resources by default.
_LIMITING: Final = ("cpu", "bandwidth_in", "bandwidth_out")


@dataclass(slots=True)
class Observed:
    """One moment.

    Attributes:
        bundles: values by name, of bundles and their brokers.
        usages: percentages by name, of brokers.
    """

    at_ms: int
    bundles: dict[tuple[Bundle, str], dict[str, float]] = field(default_factory=dict)
    usages: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, bundle: Bundle, broker: str, name: str, value: float) -> None:
        """Add a value of a bundle, or of one of its topics."""
        values = self.bundles.setdefault((bundle, broker), {})
        values[name] = values.get(name, 0.0) + value


@dataclass(frozen=True, slots=True)
class Written:
    """What rows of earlier moments say.

    Attributes:
        rings: boundaries by namespace.
        brokers: whose capacity was written.
    """

    rings: dict[Namespace, tuple[int, ...]] = field(default_factory=dict)
    brokers: set[str] = field(default_factory=set)


def rows_of(observed: Observed, written: Written, assumed_usage: float) -> Iterator[Batch]:
    """Yield the rows of a moment, and note what they say.

    Args:
        observed: the moment.
        written: of the moments before; it is updated.
        assumed_usage: mean usage of the brokers where nothing was recorded of it, 1.0 is full.
    """
    bundles = dict(_served_once(observed.bundles))
    brokers = _broker_loads(observed, bundles, assumed_usage)
    usage = {row.broker: (row.usage_ratio, row.bytes_in + row.bytes_out) for row in brokers}
    yield Batch(BROKER_LOADS, brokers)
    new = [row.broker for row in brokers if row.broker not in written.brokers]
    written.brokers.update(new)
    yield Batch(CAPACITIES, [_capacity(broker) for broker in new])
    yield Batch(BUNDLE_BOUNDARIES, list(_changed_rings(bundles, written)))
    yield Batch(
        BUNDLE_LOADS,
        [_bundle_load(bundle, *owned, *usage[owned[0]]) for bundle, owned in bundles.items()],
    )


def _served_once(
    given: Mapping[tuple[Bundle, str], Mapping[str, float]],
) -> Iterator[tuple[Bundle, tuple[str, Mapping[str, float]]]]:
    """Each bundle with one broker: a series lives on for minutes after a bundle has moved."""
    best: dict[Bundle, tuple[str, Mapping[str, float]]] = {}
    for (bundle, broker), values in sorted(given.items(), key=lambda each: each[0][1]):
        if bundle not in best or _bytes(values) > _bytes(best[bundle][1]):
            best[bundle] = broker, values
    yield from sorted(best.items(), key=lambda each: str(each[0]))


def _bytes(values: Mapping[str, float]) -> float:
    return values.get("bytes_in", 0.0) + values.get("bytes_out", 0.0)


def _broker_loads(
    observed: Observed,
    bundles: Mapping[Bundle, tuple[str, Mapping[str, float]]],
    assumed_usage: float,
) -> list[BrokerLoadRow]:
    served: dict[str, list[Mapping[str, float]]] = {name: [] for name in observed.usages}
    for broker, values in bundles.values():
        served.setdefault(broker, []).append(values)
    traffic = {broker: sum(map(_bytes, some)) for broker, some in served.items()}
    mean = fmean(traffic.values()) if traffic else 0.0
    rows = []
    for broker, some in sorted(served.items()):
        percents = observed.usages.get(broker, {})
        known = [percents[name] / 100 for name in _LIMITING if name in percents]
        guess = assumed_usage * traffic[broker] / mean if mean else 0.0
        usage = max(known) if known else guess
        total = {name: sum(each.get(name, 0.0) for each in some) for name in (*RATES, *COUNTS)}
        row = BrokerLoadRow(
            broker=broker,
            usage_ratio=usage,
            expected_usage_ratio=usage,
            cpu_percent=percents.get("cpu", 0.0),
            memory_percent=percents.get("memory", 0.0),
            direct_memory_percent=percents.get("direct_memory", 0.0),
            bandwidth_in_percent=percents.get("bandwidth_in", 0.0),
            bandwidth_out_percent=percents.get("bandwidth_out", 0.0),
            msg_rate_in=round(total["msg_rate_in"], 3),
            msg_rate_out=round(total["msg_rate_out"], 3),
            bytes_in=round(total["bytes_in"], 3),
            bytes_out=round(total["bytes_out"], 3),
            bundles=len(some),
            topics=round(total["topics"]),
            producers=round(total["producers"]),
            consumers=round(total["consumers"]),
            unlisted_bundles=0,
            report_age_s=0.0,
            reported_at_ms=observed.at_ms,
            is_draining=False,
        )
        rows.append(row)
    return rows


def _capacity(broker: str) -> CapacityRow:
    """Of a broker whose limits nobody recorded."""
    return CapacityRow(
        broker=broker,
        size_ratio=1.0,
        cpu_limit_percent=0.0,
        memory_limit_mib=0.0,
        direct_memory_limit_mib=0.0,
        bandwidth_in_limit_kbit_s=0.0,
        bandwidth_out_limit_kbit_s=0.0,
        started_at_ms=0,
        release="",
        takes_persistent=True,
        takes_non_persistent=True,
    )


def _bundle_load(
    bundle: Bundle,
    owner: str,
    values: Mapping[str, float],
    owner_usage: float,
    owner_bytes: float,
) -> BundleLoadRow:
    total = _bytes(values)
    found = {name: values.get(name, 0.0) for name in (*RATES, *COUNTS)}
    return BundleLoadRow(
        bundle=str(bundle),
        owner=owner,
        msg_rate_in=round(found["msg_rate_in"], 3),
        msg_rate_out=round(found["msg_rate_out"], 3),
        bytes_in=round(found["bytes_in"], 3),
        bytes_out=round(found["bytes_out"], 3),
        topics=round(found["topics"]),
        producers=round(found["producers"]),
        consumers=round(found["consumers"]),
        cache_bytes=None,
        usage_ratio=round(owner_usage * total / owner_bytes, 9) if owner_bytes else 0.0,
        short_bytes=round(total, 1),
        long_msg_rate=round(found["msg_rate_in"] + found["msg_rate_out"], 3),
    )


def _changed_rings(bundles: Iterable[Bundle], written: Written) -> Iterator[BoundariesRow]:
    """Rings that are whole: of a namespace some of whose bundles were not seen nothing is said."""
    ranges: dict[Namespace, list[tuple[int, int]]] = {}
    for bundle in bundles:
        ranges.setdefault(bundle.namespace, []).append((bundle.range.low, bundle.range.high))
    for namespace, some in ranges.items():
        some.sort()
        is_whole = some[0][0] == RING_LOW and some[-1][1] == RING_HIGH
        if is_whole and all(one[1] == other[0] for one, other in pairwise(some)):
            points = (*(low for low, _ in some), some[-1][1])
            if written.rings.get(namespace) != points:
                written.rings[namespace] = points
                yield BoundariesRow(str(namespace), points)
