"""How even the cluster was, over time."""

from collections.abc import Sequence
from typing import Final

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
    ChartLevel,
    ChartSeries,
    ChartSpan,
    Fact,
    Lines,
    Missing,
    Section,
    axis,
)
from broker_ctl.pipeline.transforms.heat import LOAD_SKEW

# Good, by the goals of the field (docs: planner-sources).
TARGET: Final = 1.15
_NAME: Final = "imbalance"
_TITLE: Final = "Imbalance over time"
_SAYS: Final = (
    "Imbalance is the usage of the fullest broker over that of the mean one; 1 is even. "
    f"The target is {TARGET} in 99 of 100 cycles."
)


def section(source: ReportSource) -> Section:
    """Largest over mean usage of the brokers, as the leader saw it in each cycle."""
    skew = source.result(LOAD_SKEW)
    if isinstance(skew, Missing):
        return Section(_NAME, _TITLE, missing=(skew,))
    ratio = F.col("max_over_mean")
    found = skew.agg(
        F.count("*"),
        F.min("at_ms"),
        F.max("at_ms"),
        F.avg(ratio),
        F.percentile(ratio, F.array(F.lit(0.5), F.lit(0.99))),
        F.max(ratio),
        F.count_if(ratio > TARGET),
        F.avg("mean_usage_ratio"),
        F.max("max_usage_ratio"),
        F.max_by("brokers", F.struct("epoch", "cycle")),
    ).head()
    if found is None or not found[0]:
        return Section(_NAME, _TITLE, ("The leader has gone through no cycle.",), rows=0)
    rows, first, last, mean, percentiles, most, above, usage, fullest, brokers = found
    span = ChartSpan(first, last)
    width_ms = place_width_ms(span, rows)
    by_time = skew.groupBy(place("at_ms", width_ms)).agg(F.avg(ratio), F.min(ratio), F.max(ratio))
    xs = places_of(span, width_ms)
    columns = tuple(by_place(by_time.collect(), xs))
    return Section(
        _NAME,
        _TITLE,
        (_SAYS,),
        (
            Fact("p99 of the imbalance", percentiles[1]),
            Fact("median", percentiles[0]),
            Fact("worst cycle", most),
            Fact("cycles above the target", above / rows * 100, "%"),
            Fact("brokers, at the end", brokers),
            Fact("mean usage", usage * 100, "%"),
            Fact("fullest broker ever", fullest * 100, "%"),
        ),
        (_chart(xs, columns, mean, width_ms),),
        source=LOAD_SKEW.name,
        rows=rows,
        span=span,
    )


def _chart(
    xs: tuple[int, ...], columns: Sequence[tuple[float | None, ...]], mean: float, width_ms: int
) -> Lines:
    """The line is the mean of each stretch, the area reaches from its best to its worst cycle."""
    means, lows, highs = columns
    return Lines(
        "Usage of the fullest broker over the mean one",
        ChartAxis("time", TIME, xs[0], xs[-1] + width_ms),
        axis("imbalance", "ratio", (*highs, TARGET), 1.0),
        xs,
        width_ms,
        (ChartSeries("imbalance", means),),
        (ChartSeries("lowest cycle", lows), ChartSeries("highest cycle", highs)),
        (ChartLevel("mean", mean), ChartLevel("target", TARGET)),
    )
