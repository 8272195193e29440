"""Changes of owners, their causes, and the load that they moved."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from broker_ctl.pipeline.report.source import ReportSource, hourly_width_ms, place, places_of
from broker_ctl.pipeline.report.values import (
    TIME,
    ChartAxis,
    ChartSeries,
    ChartSpan,
    Missing,
    ReportTable,
    Section,
    Stacks,
    TableColumn,
    axis,
)
from broker_ctl.pipeline.transforms.churn import MOVED_LOAD, OWNERSHIP_CHURN

_HOUR_MS: Final = 3_600_000
_MOST_KINDS: Final = 8
_MOST_ROWS: Final = 50
_OTHERS: Final = "all others"
_CHURN: Final = ("churn", "Ownership churn by cause")
_MOVED: Final = ("moved", "Load moved by reason")


def ownership(source: ReportSource) -> Section:
    """Bundles that brokers acquired and released."""
    churn = source.result(OWNERSHIP_CHURN)
    if isinstance(churn, Missing):
        return Section(*_CHURN, missing=(churn,))
    span, rows = _span(churn)
    if span is None:
        return Section(*_CHURN, ("No bundle changed hands.",))
    changes = F.col("acquired") + F.col("released")
    by_cause = churn.groupBy("cause").agg(F.sum("acquired"), F.sum("released"), F.sum(changes))
    causes = sorted(map(tuple, by_cause.collect()), key=lambda row: (-row[3], row[0]))
    chart = _chart(
        churn.select("hour_ms", F.col("cause").alias("kind"), changes.alias("value")),
        [row[0] for row in causes],
        span,
        ("Bundles that came to a broker or left one", "changes", "count"),
    )
    return Section(
        *_CHURN,
        ("A bundle that moves is counted twice: where it left, and where it came.",),
        charts=(chart,),
        tables=(
            ReportTable(
                "Causes",
                (TableColumn("cause"), TableColumn("came"), TableColumn("left")),
                tuple(row[:3] for row in causes[:_MOST_ROWS]),
                max(0, len(causes) - _MOST_ROWS),
            ),
        ),
        source=OWNERSHIP_CHURN.name,
        rows=rows,
        span=span,
    )


def moved_load(source: ReportSource) -> Section:
    """Load that the leader's decisions moved."""
    moved = source.result(MOVED_LOAD)
    if isinstance(moved, Missing):
        return Section(*_MOVED, missing=(moved,))
    span, rows = _span(moved)
    if span is None:
        return Section(*_MOVED, ("The leader has moved nothing.",))
    percent = F.coalesce("moved_ratio", F.lit(0.0)) * 100
    took = F.try_divide(F.sum(F.col("took_s") * F.col("decisions")), F.sum("decisions"))
    by_reason = moved.groupBy("decision", "reason").agg(
        F.sum("decisions"), F.sum("failures"), F.sum(percent), took
    )
    kinds = sorted(map(tuple, by_reason.collect()), key=lambda row: (-row[4], row[:2]))
    reasons: dict[str, float] = {}
    for row in kinds:
        reasons[row[1]] = reasons.get(row[1], 0.0) + row[4]
    chart = _chart(
        moved.select("hour_ms", F.col("reason").alias("kind"), percent.alias("value")),
        sorted((name for name, value in reasons.items() if value), key=lambda each: -reasons[each]),
        span,
        ("Load that the leader moved", "moved", "% of all load"),
    )
    return Section(
        *_MOVED,
        ("Throughput of the bundles that moved, over that of all bundles in the same hour.",),
        charts=(chart,) if chart.series else (),
        tables=(
            ReportTable(
                "Decisions that were carried out",
                (
                    *(
                        TableColumn("decision"),
                        TableColumn("reason"),
                        TableColumn("done"),
                        TableColumn("failed"),
                    ),
                    *(TableColumn("moved in all", "% of all load"), TableColumn("mean time", "s")),
                ),
                tuple(kinds[:_MOST_ROWS]),
                max(0, len(kinds) - _MOST_ROWS),
            ),
        ),
        source=MOVED_LOAD.name,
        rows=rows,
        span=span,
    )


def _span(frame: DataFrame) -> tuple[ChartSpan | None, int]:
    rows, first, last = frame.agg(F.count("*"), F.min("hour_ms"), F.max("hour_ms")).head() or (
        *(0, 0, 0),
    )
    return (ChartSpan(first, last + _HOUR_MS - 1), rows) if rows else (None, 0)


def _chart(
    frame: DataFrame, kinds: list[str], span: ChartSpan, words: tuple[str, str, str]
) -> Stacks:
    """Of ``hour_ms``, ``kind`` and ``value``; the smallest kinds together where there are many."""
    title, says, unit = words
    width_ms = hourly_width_ms(span)
    named = kinds if len(kinds) <= _MOST_KINDS else kinds[: _MOST_KINDS - 1]
    kind = F.when(F.col("kind").isin(named), F.col("kind")).otherwise(F.lit(_OTHERS)).alias("kind")
    sums = frame.groupBy(place("hour_ms", width_ms), kind).agg(F.sum("value")).collect()
    values = {(row[1], row[0]): float(row[2]) for row in sums if row[2]}
    xs = places_of(span, width_ms)
    labels = [*named, *([_OTHERS] if len(named) < len(kinds) else [])]
    series = tuple(
        ChartSeries(each, tuple(values.get((each, x), 0.0) for x in xs)) for each in labels
    )
    heights: Iterable[float] = (
        sum(each or 0.0 for each in column)
        for column in zip(*(each.values for each in series), strict=True)
    )
    hours = width_ms // _HOUR_MS
    per = "an hour" if hours == 1 else f"in {hours} hours"
    return Stacks(
        title,
        ChartAxis("time", TIME, xs[0], xs[-1] + width_ms),
        axis(f"{says} {per}", unit, heights, 0.0),
        xs,
        width_ms,
        series,
    )
