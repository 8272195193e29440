"""Rows of the view of one cycle; a daemon's leader and a simulated one write the same.

Boundaries and capacities are written only when they change; `Reported` has the last written ones.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView
from broker_ctl.core.history.columns import RowKind
from broker_ctl.core.history.row_kinds import (
    BROKER_LOADS,
    BUNDLE_BOUNDARIES,
    BUNDLE_LOADS,
    CAPACITIES,
)
from broker_ctl.core.history.rows import BoundariesRow, BrokerLoadRow, BundleLoadRow, CapacityRow
from broker_ctl.core.model.counting import batched
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.planning.decide import usage_averages
from broker_ctl.core.strategies.shedding.policy import Memory

# Maximum number of rows in a packed line: encoding takes about a millisecond and 25 kB.
ROWS_A_LINE: Final = 256
# Maximum number of bundles with which a strategy's memory is written completely.
_BUNDLES_IN_MEMORY: Final = 256


@dataclass(frozen=True, slots=True)
class ReportedRows:
    """The last written boundaries and capacities of this epoch; a plain value."""

    boundaries: Mapping[Namespace, tuple[int, ...]] = field(default_factory=dict)
    capacities: Mapping[str, CapacityRow] = field(default_factory=dict)


NOTHING_REPORTED: Final = ReportedRows()


class Batch(NamedTuple):
    """Rows of one kind, in the order in which they are written."""

    kind: RowKind[Any]
    rows: Sequence[Any]


def rows_of_view(reported: ReportedRows, view: ClusterView) -> Generator[Batch, None, ReportedRows]:
    """Yield all rows of a cycle's view in batches; return the values that are now written."""
    brokers = list(view.brokers.values())
    for broker in brokers:
        # One broker at a time: each row sums up all bundles of the broker.
        yield Batch(BROKER_LOADS, [_broker_load(broker)])
    capacities = {broker.broker_id: _capacity(broker) for broker in brokers}
    new = [row for name, row in capacities.items() if reported.capacities.get(name) != row]
    for rows in batched(new, ROWS_A_LINE):
        yield Batch(CAPACITIES, rows)
    boundaries = {name: ring.boundaries for name, ring in view.rings.items()}
    for rings in batched(_changed_boundaries(reported.boundaries, boundaries), ROWS_A_LINE):
        yield Batch(BUNDLE_BOUNDARIES, rings)
    for bundles in batched(view.bundles.values(), ROWS_A_LINE):
        yield Batch(BUNDLE_LOADS, [_bundle_load(bundle_view) for bundle_view in bundles])
    return ReportedRows(boundaries, capacities)


def memory_in_bounds(memory: Memory, bundles: int) -> tuple[Mapping[str, Any], bool]:
    """Return a strategy's memory, reduced in large clusters, and whether it is complete."""
    if bundles <= _BUNDLES_IN_MEMORY:
        return memory.to_row(), True
    return {"usage_averages": dict(usage_averages(memory))}, False


def _broker_load(broker: BrokerView) -> BrokerLoadRow:
    load, total = broker.load, broker.load.total
    cpu, memory, direct_memory, bandwidth_in, bandwidth_out = load.usage.resources
    return BrokerLoadRow(
        broker.broker_id,
        broker.usage_ratio,
        broker.expected.usage_ratio,
        cpu.percent,
        memory.percent,
        direct_memory.percent,
        bandwidth_in.percent,
        bandwidth_out.percent,
        total.msg_rate_in,
        total.msg_rate_out,
        total.msg_throughput_in,
        total.msg_throughput_out,
        load.bundle_count,
        total.topics,
        total.producers,
        total.consumers,
        load.unlisted_bundles,
        broker.age_s,
        load.updated_ms,
        broker.is_draining,
    )


def _capacity(broker: BrokerView) -> CapacityRow:
    load = broker.load
    cpu, memory, direct_memory, bandwidth_in, bandwidth_out = load.usage.resources
    return CapacityRow(
        broker.broker_id,
        broker.size_ratio,
        cpu.limit,
        memory.limit,
        direct_memory.limit,
        bandwidth_in.limit,
        bandwidth_out.limit,
        load.started_ms,
        load.version,
        broker.takes_persistent,
        broker.takes_non_persistent,
    )


def _changed_boundaries(
    before: Mapping[Namespace, tuple[int, ...]], now: Mapping[Namespace, tuple[int, ...]]
) -> Iterator[BoundariesRow]:
    for name, boundaries in now.items():
        if before.get(name) != boundaries:
            yield BoundariesRow(str(name), boundaries)
    for name in before:
        if name not in now:
            yield BoundariesRow(str(name), ())


def _bundle_load(bundle_view: BundleView) -> BundleLoadRow:
    load_vector, current = bundle_view.load_vector, bundle_view.current
    return BundleLoadRow(
        str(bundle_view.bundle),
        bundle_view.owner,
        *(_NO_STATS if current is None else _stats_columns(current)),
        # Rounding drops less than the precision of a report; whole doubles take twice the space.
        round(load_vector.usage_ratio, 9),
        round(load_vector.throughput_bytes, 1),
        round(load_vector.msg_rate, 3),
    )


_StatsColumns = tuple[
    float | None,
    float | None,
    float | None,
    float | None,
    int | None,
    int | None,
    int | None,
    int | None,
]
_NO_STATS: Final[_StatsColumns] = (None, None, None, None, None, None, None, None)


def _stats_columns(stats: BundleStats) -> _StatsColumns:
    return (
        round(stats.msg_rate_in, 3),
        round(stats.msg_rate_out, 3),
        round(stats.msg_throughput_in, 1),
        round(stats.msg_throughput_out, 1),
        stats.topics,
        stats.producers,
        stats.consumers,
        stats.cache_size_bytes,
    )
