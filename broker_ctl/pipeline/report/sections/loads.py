"""How full each broker was, over time."""

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from broker_ctl.pipeline.report.source import (
    ReportSource,
    by_place,
    place,
    place_width_ms,
    places_of,
)
from broker_ctl.pipeline.report.values import (
    TIME,
    ChartAxis,
    ChartSeries,
    ChartSpan,
    Lines,
    Missing,
    ReportTable,
    Section,
    TableColumn,
    axis,
)
from broker_ctl.pipeline.tables import HISTORY

# More lines cannot be distinguished.
_MOST_LINES: Final = 8
_MOST_ROWS: Final = 50
_NAME: Final = "loads"
_TITLE: Final = "Load per broker over time"


def section(source: ReportSource) -> Section:
    """The fullest brokers a line each, and all of them together an area."""
    loads = source.history(HISTORY["broker_loads"])
    if isinstance(loads, Missing):
        return Section(_NAME, _TITLE, missing=(loads,))
    percent = loads.withColumn("percent", F.col("usage_ratio") * 100)
    found = percent.agg(
        F.count("*"), F.min("at_ms"), F.max("at_ms"), F.countDistinct("broker")
    ).head()
    rows, first, last, count = found or (0, 0, 0, 0)
    if not rows:
        return Section(_NAME, _TITLE, ("No broker has reported.",))
    span = ChartSpan(first, last)
    fullest = _fullest(percent)
    names = [each[0] for each in fullest[:_MOST_LINES]]
    says = "Usage is that of a broker's fullest resource, as the leader heard it; 100 % is full."
    if count > len(names):
        says += (
            f" Lines are the {len(names)} brokers with the highest mean usage of {count}; the area "
            "holds all of them."
        )
    return Section(
        _NAME,
        _TITLE,
        (says,),
        charts=(_chart(percent, names, span, place_width_ms(span, rows // count)),),
        tables=(
            ReportTable(
                "Brokers, the fullest first",
                (
                    TableColumn("broker"),
                    TableColumn("mean usage", "%"),
                    TableColumn("p99", "%"),
                    TableColumn("highest", "%"),
                    TableColumn("cycles"),
                ),
                fullest,
                count - len(fullest),
            ),
        ),
        source="broker_loads",
        rows=rows,
        span=span,
    )


def _fullest(percent: DataFrame) -> tuple[tuple[Any, ...], ...]:
    """Broker, mean, p99 and highest usage in percent, cycles."""
    by_broker = percent.groupBy("broker").agg(
        F.avg("percent").alias("mean"),
        F.percentile("percent", 0.99),
        F.max("percent"),
        F.count("*"),
    )
    rows = by_broker.orderBy(F.desc("mean"), "broker").limit(_MOST_ROWS).collect()
    return tuple(map(tuple, rows))


def _chart(percent: DataFrame, names: list[str], span: ChartSpan, width_ms: int) -> Lines:
    by_broker = percent.groupBy(place("at_ms", width_ms), "broker").agg(
        F.avg("percent").alias("percent")
    )
    of_each = (F.max(F.when(F.col("broker") == name, F.col("percent"))) for name in names)
    by_time = by_broker.groupBy("place_ms").agg(F.min("percent"), F.max("percent"), *of_each)
    xs = places_of(span, width_ms)
    lows, highs, *series = by_place(by_time.collect(), xs)
    return Lines(
        "Usage of brokers",
        ChartAxis("time", TIME, xs[0], xs[-1] + width_ms),
        axis("usage", "%", highs, 0.0),
        xs,
        width_ms,
        tuple(ChartSeries(name, values) for name, values in zip(names, series, strict=True)),
        (ChartSeries("lowest broker", lows), ChartSeries("highest broker", highs)),
    )
