"""The rows that record the view of a cycle."""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from broker_ctl.core.cluster.decisions import (
    Assign,
    Decision,
    Merge,
    Reason,
    Skip,
    Split,
    Transfer,
    Unload,
)
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.history.cycle_rows import (
    NOTHING_REPORTED,
    ROWS_A_LINE,
    Batch,
    ReportedRows,
    memory_in_bounds,
    rows_of_view,
)
from broker_ctl.core.history.rows import (
    BoundariesRow,
    BrokerLoadRow,
    BundleLoadRow,
    CapacityRow,
    decision_row,
)
from broker_ctl.core.model.load import (
    BrokerLoad,
    BundleStats,
    LoadVector,
    ResourceUsage,
    SystemUsage,
)
from broker_ctl.core.model.names import Ring
from broker_ctl.core.strategies.shedding.threshold import ThresholdMemory
from tests.support.clusters.views import BUNDLES, NAMESPACE, RING, broker, cluster, stats

A, B = BUNDLES[:2]


@dataclass
class Written:
    """Rows by the name of their kind, and what is reported by them."""

    rows: dict[str, list[Any]] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    reported: ReportedRows = NOTHING_REPORTED


def written(view: ClusterView, reported: ReportedRows = NOTHING_REPORTED) -> Written:
    found = Written()

    def follow(steps: Generator[Batch, None, ReportedRows]) -> Generator[Batch, None, None]:
        found.reported = yield from steps

    for batch in follow(rows_of_view(reported, view)):
        found.batches.append(batch)
        found.rows.setdefault(batch.kind.name, []).extend(batch.rows)
    return found


def test_the_row_of_a_broker_has_its_resources_and_its_sums() -> None:
    usage = SystemUsage(
        ResourceUsage(100, 400),
        ResourceUsage(1, 2),
        ResourceUsage(1, 4),
        ResourceUsage(1, 10),
        ResourceUsage(1, 20),
    )
    lines = {str(A): BundleStats(1, 2, 3, 4, 5, 6, 7, 8), str(B): BundleStats(1, 1, 1, 1, 1, 1, 1)}
    load = BrokerLoad("b1", usage, lines, 99, 88, "4.1", BundleStats(1), 3)
    view = cluster([BrokerView("b1", load, 0.25, is_draining=True, age_s=1.5)])
    found = written(view)
    assert found.rows["broker_loads"] == [
        BrokerLoadRow(
            *("b1", 0.25, 0.25),
            *(25.0, 50.0, 25.0, 10.0, 5.0),
            *(3.0, 3.0, 4.0, 5.0),
            *(5, 6, 7, 8, 3),
            *(1.5, 99, True),
        )
    ]
    assert found.rows["capacities"] == [
        CapacityRow("b1", 1.0, 400, 2, 4, 10, 20, 88, "4.1", *(True, True))
    ]


def test_the_row_of_a_bundle_has_the_report_of_its_owner() -> None:
    view = cluster([broker("b1", 0.5, {A: BundleStats(1.23456, 2, 3.3333, 4, 5, 6, 7, 8)})])
    (row,) = written(view).rows["bundle_loads"]
    assert row == BundleLoadRow(
        *(str(A), "b1"), *(1.235, 2.0, 3.3, 4.0), *(5, 6, 7, 8), *(0.5, 7.3, 3.235)
    )


def test_a_bundle_that_its_owner_has_not_reported_has_unknown_loads() -> None:
    view = cluster(
        [broker("b1", 0.5, {A: stats(10)}), broker("b2", 0.1)], owners={A: "b2", B: None}
    )
    moved, unowned = written(view).rows["bundle_loads"]
    assert (moved.bundle, moved.owner, unowned.bundle, unowned.owner) == (
        *(str(A), "b2"),
        *(str(B), None),
    )
    assert moved[2:10] == unowned[2:10] == (None,) * 8
    assert moved.usage_ratio == 0.5


def test_every_bundle_has_one_row_and_none_waits_for_many() -> None:
    ring = Ring.even(NAMESPACE, 600)
    lines = {bundle: stats(1) for bundle in ring.bundles}
    found = written(cluster([broker("b1", 0.5, lines)], rings=[ring]))
    texts = [row.bundle for row in found.rows["bundle_loads"]]
    assert texts == [str(bundle) for bundle in ring.bundles]
    sizes = [len(batch.rows) for batch in found.batches if batch.kind.name == "bundle_loads"]
    assert sizes == [ROWS_A_LINE, ROWS_A_LINE, 600 - 2 * ROWS_A_LINE]


def test_capacities_and_boundaries_are_written_when_they_change() -> None:
    view = cluster([broker("b1", 0.5, {A: stats(1)}), broker("b2", 0.5)])
    first = written(view)
    assert [row.broker for row in first.rows["capacities"]] == ["b1", "b2"]
    assert first.rows["bundle_boundaries"] == [BoundariesRow(str(NAMESPACE), RING.boundaries)]
    again = written(view, first.reported)
    assert set(again.rows) == {"broker_loads", "bundle_loads"}
    larger = replace(view.brokers["b2"], size_ratio=2.0)
    cut = RING.split(A, (A.range.low + 5,))
    changed = replace(view, brokers={**view.brokers, "b2": larger}, rings={NAMESPACE: cut})
    second = written(changed, first.reported)
    assert [row[:2] for row in second.rows["capacities"]] == [("b2", 2.0)]
    assert second.rows["bundle_boundaries"] == [BoundariesRow(str(NAMESPACE), cut.boundaries)]
    gone = written(replace(changed, rings={}), second.reported)
    assert gone.rows["bundle_boundaries"] == [BoundariesRow(str(NAMESPACE), ())]
    assert gone.reported.boundaries == {}


def test_a_memory_is_written_whole_while_it_is_small() -> None:
    memory = ThresholdMemory({"b1": 0.5})
    assert memory_in_bounds(memory, 256) == ({"history": {"b1": 0.5}}, True)
    assert memory_in_bounds(memory, 257) == ({"usage_averages": {"b1": 0.5}}, False)


# Decisions.

BEFORE = LoadVector(0.9, 200.0, 20, 9)
MOVED = LoadVector(0.2, 50.0, 5, 3)


@pytest.mark.parametrize(
    ("decision", "fields"),
    [
        (Skip("cluster", Reason.BELOW_THRESHOLD, "x"), {"subject": "cluster"}),
        (Assign(A, "b2", Reason.UNOWNED, "x"), {"bundle": str(A), "destination": "b2"}),
        (Unload(A, "b1", Reason.DRAIN, "x"), {"bundle": str(A), "source": "b1"}),
        (
            Transfer(A, "b1", "b2", Reason.OVERLOADED, "x", MOVED, BEFORE, LoadVector()),
            {
                "bundle": str(A),
                "source": "b1",
                "destination": "b2",
                "throughput_bytes": 50.0,
                "source_usage_before_ratio": 0.9,
                "source_usage_after_ratio": pytest.approx(0.7),
                "destination_usage_before_ratio": 0.0,
                "destination_usage_after_ratio": 0.2,
            },
        ),
        (
            Split(A, "b1", "range_equally_divide", (8, 9), Reason.MSG_RATE, "x"),
            {
                "bundle": str(A),
                "source": "b1",
                "algorithm": "range_equally_divide",
                "boundaries": (8, 9),
            },
        ),
        (
            Merge(A, B, "b1", Reason.COLD, "x"),
            {"bundle": str(A), "right_bundle": str(B), "source": "b1"},
        ),
    ],
)
def test_the_row_of_a_decision_has_the_fields_of_its_kind(
    decision: Decision, fields: dict[str, object]
) -> None:
    row = decision_row(decision, "failed", "no answer", 1.5)._asdict()
    head = {
        "decision": decision.kind,
        "reason": decision.reason.value,
        "detail": "x",
        "result": "failed",
        "outcome": "no answer",
        "took_s": 1.5,
    }
    assert {name: value for name, value in row.items() if value is not None} == {**head, **fields}
