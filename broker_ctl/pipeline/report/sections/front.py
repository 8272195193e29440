"""Results of other settings on the same traffic: the Pareto front of a back-test."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import functions as F

from broker_ctl.pipeline.backtest.results import COMPARISONS, FRONT
from broker_ctl.pipeline.report.source import ReportSource
from broker_ctl.pipeline.report.values import (
    ChartGroup,
    ChartPoint,
    Missing,
    Points,
    ReportTable,
    Section,
    TableColumn,
    axis,
)

_NAME: Final = "front"
_TITLE: Final = "Back-test: what other settings would have done"
_MOST_CHARTS: Final = 6
# Of all charts, those on the front first.
_MOST_POINTS: Final = 1_200
_MOST_ROWS: Final = 60
_SAYS: Final = (
    "A candidate is on the front of a trace where no other is as good in all of p99 imbalance, "
    "load moved and minutes of overload, and better in one. Means over the seeds."
)
_COLUMNS: Final = (
    *(
        TableColumn("trace"),
        TableColumn("policy"),
        TableColumn("parameters"),
        TableColumn("measure"),
    ),
    *(
        TableColumn("against"),
        TableColumn("pairs"),
        TableColumn("baseline"),
        TableColumn("candidate"),
    ),
    *(TableColumn("difference"), TableColumn("low, 95 %"), TableColumn("high, 95 %")),
)


def section(source: ReportSource) -> Section:
    """A chart for each trace, with the candidates on the front and the dominated ones."""
    front, comparisons = source.backtest(FRONT), source.backtest(COMPARISONS)
    if isinstance(front, Missing):
        return Section(_NAME, _TITLE, missing=(front,))
    counts = dict(map(tuple, front.groupBy("trace").count().orderBy("trace").collect()))
    traces = list(counts)[:_MOST_CHARTS]
    some = front.where(F.col("trace").isin(traces))
    order = (F.desc("is_on_front"), "p99", "policy", "parameters")
    by_trace: defaultdict[str, list[Any]] = defaultdict(list)
    for row in some.orderBy(*order).limit(_MOST_POINTS).collect():
        by_trace[row["trace"]].append(row)
    says = [
        _SAYS,
    ]
    if len(counts) > len(traces):
        says.append(f"{len(counts) - len(traces)} more traces have no chart here.")
    if hidden := sum(counts[each] - len(by_trace[each]) for each in traces):
        says.append(f"{hidden:,} more candidates have no point here.")
    tables: tuple[ReportTable, ...] = ()
    missing: tuple[Missing, ...] = ()
    if isinstance(comparisons, Missing):
        missing = (comparisons,)
    else:
        tables = (_compared_table(comparisons.count(), _rows(comparisons)),)
    return Section(
        _NAME,
        _TITLE,
        tuple(says),
        charts=tuple(_chart(trace, found) for trace, found in by_trace.items()),
        tables=tables,
        source=FRONT.name,
        rows=sum(counts.values()),
        missing=missing,
    )


def _rows(comparisons: Any) -> list[tuple[Any, ...]]:
    against = F.concat_ws(" ", "baseline_policy", "baseline_parameters")
    # As a part of the baseline: minutes of overload are other numbers than ratios.
    part = F.asc_nulls_last(F.try_divide("difference", "baseline_mean"))
    found = comparisons.orderBy(part, "trace", "policy", "parameters", "measure").select(
        *("trace", "policy", "parameters", "measure", against.alias("against"), "pairs"),
        *("baseline_mean", "candidate_mean", "difference", "low", "high"),
    )
    return [tuple(row) for row in found.limit(_MOST_ROWS).collect()]


def _compared_table(count: int, rows: list[tuple[Any, ...]]) -> ReportTable:
    title = "Against the baseline, pair by pair on the same seeds; below 0 is better"
    return ReportTable(title, _COLUMNS, tuple(rows), count - len(rows))


def _chart(trace: str, rows: Sequence[Any]) -> Points:
    groups = (
        ChartGroup(label, tuple(_point(row) for row in rows if row["is_on_front"] is is_on))
        for label, is_on in (("on the front", True), ("beaten by another", False))
    )
    return Points(
        f"Imbalance against load moved: {trace}",
        axis("load moved", "% of all an hour", (row["load_moved_pct_per_h"] for row in rows), 0.0),
        axis("p99 of imbalance", "ratio", (row["p99"] for row in rows)),
        tuple(groups),
    )


def _point(row: Any) -> ChartPoint:
    label = f"{row['policy']} {row['parameters']}".strip()
    return ChartPoint(
        f"{label} ({row['overload_broker_min']:.0f} min of overload)",
        row["load_moved_pct_per_h"],
        row["p99"],
    )
