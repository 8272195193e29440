"""Shapes of bundles, sizes of brokers, and what unloads and forecasts were worth."""

from typing import Any, Final

from pyspark.sql import functions as F

from broker_ctl.pipeline.report.source import ReportSource
from broker_ctl.pipeline.report.values import (
    ChartSpan,
    Fact,
    Missing,
    ReportTable,
    Section,
    TableColumn,
)
from broker_ctl.pipeline.transforms.churn import UNLOAD_EFFECTS
from broker_ctl.pipeline.transforms.forecasts import CAPACITY_FIT, FORECAST_ERRORS, SHAPE_ADVICE

_MOST_ROWS: Final = 30
_FITTED: Final = (
    "Usage follows throughput along a straight line; where it meets 100 % a broker is "
    "full. Below 1 in the last column, a broker can take less than it says."
)
_FORETOLD: Final = (
    "Each hour of a bundle, foretold by the same hour of yesterday and of the usual day; "
    "all differences over all that was carried."
)
_UNLOADS: Final = ("unloads", "What each unload has brought")
_CAPACITY: Final = ("capacity", "What brokers can take")
_SHAPES: Final = ("shapes", "Bundles to split and to merge")
_FORECASTS: Final = ("forecasts", "How well the past foretells the load")


def unloads(source: ReportSource) -> Section:
    """Means of the brokers before and after, by reason."""
    frame = source.result(UNLOAD_EFFECTS)
    if isinstance(frame, Missing):
        return Section(*_UNLOADS, missing=(frame,))
    measured = (
        *("source_before_ratio", "source_after_ratio", "source_foreseen_ratio"),
        *("destination_before_ratio", "destination_after_ratio", "destination_foreseen_ratio"),
    )
    means = [F.avg(name) * 100 for name in measured]
    skews = [F.avg(name) for name in ("skew_before", "skew_after")]
    by_reason = frame.groupBy("reason").agg(
        F.count("*"), *means, *skews, F.min("at_ms"), F.max("at_ms")
    )
    found = sorted(map(tuple, by_reason.collect()), key=lambda row: (-row[1], row[0]))
    if not found:
        return Section(*_UNLOADS, ("No bundle was unloaded.",))
    columns = (
        *(TableColumn("reason"), TableColumn("unloads"), TableColumn("giver before", "%")),
        *(
            TableColumn("after", "%"),
            TableColumn("foreseen", "%"),
            TableColumn("receiver before", "%"),
        ),
        *(TableColumn("after", "%"), TableColumn("foreseen", "%")),
        *(TableColumn("imbalance before", "ratio"), TableColumn("after", "ratio")),
    )
    return Section(
        *_UNLOADS,
        ("Mean usage of the two brokers some minutes before an unload and after it.",),
        tables=(
            ReportTable(
                "By reason",
                columns,
                tuple(row[:10] for row in found[:_MOST_ROWS]),
                max(0, len(found) - _MOST_ROWS),
            ),
        ),
        source=UNLOAD_EFFECTS.name,
        rows=sum(row[1] for row in found),
        span=ChartSpan(min(row[10] for row in found), max(row[11] for row in found)),
    )


def capacity(source: ReportSource) -> Section:
    """Those first that can take less than they say."""
    frame = source.result(CAPACITY_FIT)
    if isinstance(frame, Missing):
        return Section(*_CAPACITY, missing=(frame,))
    count = frame.count()
    if not count:
        return Section(*_CAPACITY, ("No broker has reported.",))
    idle = (F.col("idle_usage_ratio") * 100).alias("idle")
    found = frame.orderBy(F.asc_nulls_last("fit_over_reported"), "broker").limit(_MOST_ROWS)
    rows = _rows(
        found.select(
            *("broker", "samples", "fitted_bytes_s", idle, "r2"),
            *("fitted_size_ratio", "reported_size_ratio", "fit_over_reported"),
        )
    )
    columns = (
        *(
            TableColumn("broker"),
            TableColumn("cycles"),
            TableColumn("full at", "bytes/s"),
            TableColumn("idle", "%"),
        ),
        *(TableColumn("explained", "R²"), TableColumn("fitted size", "mean brokers")),
        *(
            TableColumn("reported size", "mean brokers"),
            TableColumn("fitted over reported", "ratio"),
        ),
    )
    return Section(
        *_CAPACITY,
        (_FITTED,),
        tables=(ReportTable("Fitted and reported", columns, rows, count - len(rows)),),
        source=CAPACITY_FIT.name,
        rows=count,
    )


def shapes(source: ReportSource) -> Section:
    """The largest first."""
    frame = source.result(SHAPE_ADVICE)
    if isinstance(frame, Missing):
        return Section(*_SHAPES, missing=(frame,))
    counts = {row[0]: row[1] for row in frame.groupBy("advice").count().collect()}
    if not counts:
        return Section(*_SHAPES, ("No bundle is too large, and no two are too small.",))
    percent = (F.col("usage_ratio") * 100).alias("percent")
    order = (F.desc("advice"), F.desc("usage_ratio"), "bundle")
    found = frame.orderBy(*order).limit(_MOST_ROWS)
    rows = _rows(found.select("advice", "bundle", "right_bundle", "parts", percent, "topics"))
    columns = (
        *(TableColumn("advice"), TableColumn("bundle"), TableColumn("with"), TableColumn("parts")),
        *(TableColumn("fullest hour", "% of a broker"), TableColumn("topics")),
    )
    total = sum(counts.values())
    return Section(
        *_SHAPES,
        facts=tuple(Fact(f"to {name}", count) for name, count in sorted(counts.items())),
        tables=(ReportTable("The largest first", columns, rows, total - len(rows)),),
        source=SHAPE_ADVICE.name,
        rows=total,
    )


def forecasts(source: ReportSource) -> Section:
    """All bundles together, and those that are foretold worst."""
    frame = source.result(FORECAST_ERRORS)
    if isinstance(frame, Missing):
        return Section(*_FORECASTS, missing=(frame,))
    carried = F.col("bytes_s") * F.col("hours")
    kinds = ("yesterday_error_ratio", "profile_error_ratio", "profile_bias_ratio")
    weighted = [F.try_divide(F.sum(F.col(name) * carried), F.sum(carried)) * 100 for name in kinds]
    count, yesterday, profile, bias = frame.agg(F.count("*"), *weighted).head() or (0,) * 4
    if not count:
        return Section(
            *_FORECASTS, ("No bundle was there on two days in a row: nothing was foretold.",)
        )
    percents = [(F.col(name) * 100).alias(name) for name in kinds]
    worst = frame.orderBy(F.desc(F.col("profile_error_ratio") * carried), "bundle")
    rows = _rows(worst.limit(_MOST_ROWS).select("bundle", "hours", "bytes_s", *percents))
    columns = (
        *(TableColumn("bundle"), TableColumn("hours"), TableColumn("mean", "bytes/s")),
        *(
            TableColumn("error of yesterday", "%"),
            TableColumn("of the usual day", "%"),
            TableColumn("bias", "%"),
        ),
    )
    return Section(
        *_FORECASTS,
        (_FORETOLD,),
        (
            Fact("error of yesterday", yesterday, "%"),
            Fact("error of the usual day", profile, "%"),
            Fact("its bias", bias, "%"),
        ),
        tables=(ReportTable("Where most was missed", columns, rows, count - len(rows)),),
        source=FORECAST_ERRORS.name,
        rows=count,
    )


def _rows(frame: Any) -> tuple[tuple[Any, ...], ...]:
    return tuple(map(tuple, frame.collect()))
