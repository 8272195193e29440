"""Shapes of days, what they predict, and the capacity that this leaves."""

from typing import Annotated, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from broker_ctl.core.history.columns import Doc, kind
from broker_ctl.pipeline.tables import plain
from broker_ctl.pipeline.transforms.hours import newest_days

# Fits the capacity of brokers, and compares it with the reported one.


class CapacityFitRow(NamedTuple):
    """How the usage of a broker follows its throughput: usage = idle + throughput / capacity."""

    cluster: Annotated[str, Doc("its name")]
    broker: Annotated[str, Doc("broker id")]
    samples: Annotated[int, Doc("cycles in which it had reported")]
    fitted_bytes_s: Annotated[
        float | None, Doc("throughput that fills it; null: usage does not grow with it")
    ]
    idle_usage_ratio: Annotated[float | None, Doc("usage without any throughput, fitted")]
    r2: Annotated[float | None, Doc("part of the variance that is explained, 1.0 is all")]
    fitted_size_ratio: Annotated[
        float | None, Doc("its fitted capacity over the mean one of the cluster")
    ]
    reported_size_ratio: Annotated[
        float | None, Doc("its newest reported size; null: it reported none")
    ]
    fit_over_reported: Annotated[
        float | None, Doc("of the two sizes; below 1.0 it can take less than it says")
    ]


CAPACITY_FIT: Final = plain(
    kind("capacity_fit", CapacityFitRow, "one row per broker", *("cluster", "broker"))
)


def capacity_fit(broker_loads: DataFrame, capacities: DataFrame) -> DataFrame:
    """Of the history's broker loads and capacities, `CAPACITY_FIT`, by least squares."""
    throughput = F.col("bytes_in") + F.col("bytes_out")
    usage = F.col("usage_ratio")
    by_broker = broker_loads.groupBy("cluster", "broker").agg(
        F.count("*").alias("samples"),
        F.regr_slope(usage, throughput).alias("slope"),
        F.regr_intercept(usage, throughput).alias("idle_usage_ratio"),
        F.regr_r2(usage, throughput).alias("r2"),
    )
    fitted = F.when(F.col("slope") > 0, 1 / F.col("slope"))
    mean = F.avg("fitted_bytes_s").over(Window.partitionBy("cluster"))
    sized = by_broker.withColumn("fitted_bytes_s", fitted).withColumn(
        "fitted_size_ratio", F.try_divide("fitted_bytes_s", mean)
    )
    reported = capacities.groupBy("cluster", "broker").agg(
        F.max_by("size_ratio", F.struct("epoch", "cycle")).alias("reported_size_ratio")
    )
    joined = sized.join(reported, ["cluster", "broker"], "left")
    ratio = F.try_divide("fitted_size_ratio", "reported_size_ratio")
    return joined.withColumn("fit_over_reported", ratio)


# How well the past of a bundle foretells its load: yesterday, and the usual day.


_DAY_MS: Final = 86_400_000


class ForecastErrorRow(NamedTuple):
    """A bundle whose hours were foretold, each from the days before it.

    A weighted error is the sum of all differences over the sum of what was carried.
    """

    cluster: Annotated[str, Doc("its name")]
    bundle: Annotated[str, Doc("tenant/namespace/0xLOW_0xHIGH")]
    hours: Annotated[int, Doc("that had the same hour the day before")]
    bytes_s: Annotated[float, Doc("mean of these hours", "bytes/s")]
    yesterday_error_ratio: Annotated[
        float | None, Doc("weighted, of the same hour yesterday; null where nothing was carried")
    ]
    profile_error_ratio: Annotated[
        float | None, Doc("weighted, of the median of that hour over the days before")
    ]
    profile_bias_ratio: Annotated[
        float | None, Doc("the same with signs: above 0 more was foretold than came")
    ]


FORECAST_ERRORS: Final = plain(
    kind(
        "forecast_errors",
        ForecastErrorRow,
        "one row per bundle that was there on two days in a row",
        *("cluster", "bundle"),
    )
)


def forecast_errors(hours: DataFrame, days: int) -> DataFrame:
    """Of `BUNDLE_HOURS`, `FORECAST_ERRORS`: of the newest ``days`` days, each by those before it.

    A profile covers as many days at most, so that twice as many are read.
    """
    day = F.floor(F.col("hour_ms") / _DAY_MS)
    hour = F.floor(F.col("hour_ms") % _DAY_MS / 3_600_000)
    dated = newest_days(hours, 2 * days).withColumn("day", day).withColumn("hour", hour)
    same_hour = Window.partitionBy("cluster", "bundle", "hour").orderBy("day")
    before = F.max("bytes_s").over(same_hour.rangeBetween(-1, -1))
    usual = F.percentile("bytes_s", 0.5).over(same_hour.rangeBetween(-days, -1))
    foretold = dated.withColumn("yesterday", before).withColumn("usual", usual)
    newest = F.max("day").over(Window.partitionBy("cluster"))
    judged = foretold.withColumn("newest", newest).where(F.col("day") > F.col("newest") - days)
    known = judged.where(F.col("yesterday").isNotNull())
    return known.groupBy("cluster", "bundle").agg(
        F.count("*").alias("hours"),
        F.avg("bytes_s").alias("bytes_s"),
        _over_all(F.abs(F.col("yesterday") - F.col("bytes_s"))).alias("yesterday_error_ratio"),
        _over_all(F.abs(F.col("usual") - F.col("bytes_s"))).alias("profile_error_ratio"),
        _over_all(F.col("usual") - F.col("bytes_s")).alias("profile_bias_ratio"),
    )


def _over_all(difference: Column) -> Column:
    return F.try_divide(F.sum(difference), F.sum("bytes_s"))


# Advice on bundles to split and to merge (docs: planner-sources).


_RANGE: Final = r"^(.*)/0x([0-9a-f]{8})_0x([0-9a-f]{8})$"


class ShapeAdviceRow(NamedTuple):
    """A bundle that is too large, or two neighbours that are too small."""

    cluster: Annotated[str, Doc("its name")]
    bundle: Annotated[str, Doc("that should be cut, or joined with the next one")]
    advice: Annotated[str, Doc("split or merge")]
    right_bundle: Annotated[str | None, Doc("of a merge, the next one")]
    parts: Annotated[int | None, Doc("of a split: number of parts, at most one per topic")]
    usage_ratio: Annotated[
        float, Doc("of the fullest hour of a usual day, of both together; 1.0 is a mean broker")
    ]
    topics: Annotated[int, Doc("most that they had")]


SHAPE_ADVICE: Final = plain(
    kind("shape_advice", ShapeAdviceRow, "one row per bundle", *("cluster", "bundle"))
)


def shape_advice(
    profiles: DataFrame, hours: DataFrame, split_ratio: float, merge_ratio: float
) -> DataFrame:
    """`SHAPE_ADVICE` for the bundles that there were in the newest hour of their cluster.

    Args:
        profiles: `HOUR_PROFILES`.
        hours: `BUNDLE_HOURS`.
        split_ratio: of a mean broker; a bundle that takes more of it in any hour is cut.
        merge_ratio: likewise; neighbours that take less of it in every hour, both together, are
            joined.
    """
    newest = hours.groupBy("cluster").agg(F.max("hour_ms").alias("hour_ms"))
    alive = hours.join(newest, ["cluster", "hour_ms"]).select("cluster", "bundle", "topics")
    peaks = profiles.join(alive, ["cluster", "bundle"])
    splits = _splits(peaks, split_ratio)
    return splits.unionByName(_merges(peaks, merge_ratio))


def _splits(peaks: DataFrame, split_ratio: float) -> DataFrame:
    tops = peaks.groupBy("cluster", "bundle").agg(
        F.max("usage_ratio").alias("usage_ratio"), F.max("topics").alias("topics")
    )
    # One topic lies in one bundle, however small that is.
    is_large = (F.col("usage_ratio") > split_ratio) & (F.col("topics") > 1)
    parts = F.least(F.ceil(F.col("usage_ratio") / split_ratio), F.col("topics"))
    return tops.where(is_large).select(
        *("cluster", "bundle"),
        F.lit("split").alias("advice"),
        F.lit(None).cast("string").alias("right_bundle"),
        parts.alias("parts"),
        *("usage_ratio", "topics"),
    )


def _merges(peaks: DataFrame, merge_ratio: float) -> DataFrame:
    """Of each run of small neighbours the first with the second, the third with the fourth."""
    placed = peaks.groupBy("cluster", "bundle", "topics").agg(
        F.map_from_entries(F.collect_list(F.struct("hour", "usage_ratio"))).alias("by_hour")
    )
    placed = placed.select(
        "*", _part(1).alias("namespace"), _edge(2).alias("low"), _edge(3).alias("high")
    )
    ring = Window.partitionBy("cluster", "namespace").orderBy("low")
    nexts = placed.select(
        "*",
        *(
            F.lead(name).over(ring).alias(f"next_{name}")
            for name in ("bundle", "low", "topics", "by_hour")
        ),
    )
    both = F.map_zip_with(
        "by_hour",
        "next_by_hour",
        lambda _, one, other: F.coalesce(one, F.lit(0.0)) + F.coalesce(other, F.lit(0.0)),
    )
    joined = nexts.withColumn("usage_ratio", F.array_max(F.map_values(both)))
    is_small = (F.col("high") == F.col("next_low")) & (F.col("usage_ratio") < merge_ratio)
    marked = joined.withColumn("is_small", F.coalesce(is_small, F.lit(False)))  # noqa: FBT003
    # A bundle is joined once: of a run of pairs every other one.
    breaks = F.sum(F.when(F.col("is_small"), 0).otherwise(1)).over(ring)
    runs = marked.withColumn("run", breaks).where("is_small")
    place = F.row_number().over(Window.partitionBy("cluster", "namespace", "run").orderBy("low"))
    return (
        runs.withColumn("place", place)
        .where("place % 2 = 1")
        .select(
            *("cluster", "bundle"),
            F.lit("merge").alias("advice"),
            F.col("next_bundle").alias("right_bundle"),
            F.lit(None).cast("long").alias("parts"),
            "usage_ratio",
            (F.col("topics") + F.col("next_topics")).alias("topics"),
        )
    )


def _part(number: int) -> Column:
    return F.regexp_extract("bundle", _RANGE, number)


def _edge(number: int) -> Column:
    return F.conv(_part(number), 16, 10).cast("long")
