"""Loads by hour, and the newest complete cycle."""

from typing import Annotated, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from broker_ctl.core.history.columns import Doc, kind
from broker_ctl.pipeline.reading.hourly import MedianTask
from broker_ctl.pipeline.tables import Table, plain

# The newest complete cycle of a history.


def select_latest_cycle(broker_loads: DataFrame) -> Column | None:
    """Condition for its rows in the tables of cycles; None: there is no cycle.

    It is the last but one, if there are two: some rows of the last may still be in an open segment.

    Args:
        broker_loads: those of one cluster.
    """
    cycles = broker_loads.select("epoch", "cycle").distinct()
    newest = cycles.orderBy(F.desc("epoch"), F.desc("cycle")).limit(2).collect()
    if not newest:
        return None
    epoch, cycle = newest[-1]
    return (F.col("epoch") == F.lit(epoch)) & (F.col("cycle") == F.lit(cycle))


# The load of each bundle by the hour, and what a usual day and a usual week of it are.
#
# The load of an hour is what was carried in it: a bundle that was there for a third of the cycles
# of an hour counts a third, and what took its place the rest. So the loads of bundles add up to
# that of their cluster, whatever was split, merged or moved.
#
# A profile is the median over days of an hour's mean: one strange day does not move it (docs:
# load-history-sources). Hours and days are UTC.


# What is summed up of a bundle; all of them are averages over time.
MEASURES: Final = ("msg_rate", "bytes_s", "usage_ratio")


class BundleHourRow(NamedTuple):
    """A bundle in one hour of one day."""

    cluster: Annotated[str, Doc("its name")]
    bundle: Annotated[str, Doc("tenant/namespace/0xLOW_0xHIGH")]
    hour_ms: Annotated[int, Doc("its first moment", "ms since 1970")]
    cycles: Annotated[int, Doc("of the leader, in which its owner had reported it")]
    msg_rate: Annotated[float, Doc("mean over the cycles of the cluster, in and out", "msg/s")]
    bytes_s: Annotated[float, Doc("mean over the cycles of the cluster, in and out", "bytes/s")]
    usage_ratio: Annotated[
        float, Doc("mean over the cycles of the cluster, 1.0 is all of a mean broker")
    ]
    topics: Annotated[int, Doc("most that it had")]


class HourProfileRow(NamedTuple):
    """A bundle at one hour of a usual day."""

    cluster: Annotated[str, Doc("its name")]
    bundle: Annotated[str, Doc("tenant/namespace/0xLOW_0xHIGH")]
    hour: Annotated[int, Doc("0 to 23, UTC")]
    days: Annotated[int, Doc("that had such an hour")]
    msg_rate: Annotated[float, Doc("median, in and out", "msg/s")]
    bytes_s: Annotated[float, Doc("median, in and out", "bytes/s")]
    usage_ratio: Annotated[float, Doc("median, 1.0 is all of a mean broker")]


class WeekdayProfileRow(NamedTuple):
    """A bundle on one day of a usual week."""

    cluster: Annotated[str, Doc("its name")]
    bundle: Annotated[str, Doc("tenant/namespace/0xLOW_0xHIGH")]
    weekday: Annotated[int, Doc("1 is Monday, 7 Sunday, UTC")]
    days: Annotated[int, Doc("such days")]
    msg_rate: Annotated[float, Doc("median of the days' means, in and out", "msg/s")]
    bytes_s: Annotated[float, Doc("median of the days' means, in and out", "bytes/s")]
    usage_ratio: Annotated[float, Doc("median of the days' means")]


BUNDLE_HOURS: Final = plain(
    kind(
        "bundle_hours",
        BundleHourRow,
        "one row per bundle and hour in which it was reported",
        *("cluster", "bundle", "hour_ms"),
    )
)
HOUR_PROFILES: Final = plain(
    kind(
        "hour_profiles",
        HourProfileRow,
        "one row per bundle and hour of the day",
        *("cluster", "bundle", "hour"),
    )
)
WEEKDAY_PROFILES: Final = plain(
    kind(
        "weekday_profiles",
        WeekdayProfileRow,
        "one row per bundle and day of the week",
        *("cluster", "bundle", "weekday"),
    )
)


def bundle_hours(sums: DataFrame) -> DataFrame:
    """Of `reading.hourly.SUMS`, `BUNDLE_HOURS`; unreported load is not counted."""
    means = (F.try_divide(f"{name}_sum", "hour_cycles").alias(name) for name in MEASURES)
    cycles, topics = F.col("count_all").alias("cycles"), F.col("topics_max").alias("topics")
    return sums.select("cluster", "bundle", "hour_ms", cycles, *means, topics)


def newest_days(hours: DataFrame, days: int) -> DataFrame:
    """Rows of `BUNDLE_HOURS` of the newest ``days`` days of their cluster."""
    dated = hours.withColumn("day", F.to_date(F.timestamp_millis("hour_ms")))
    newest = dated.groupBy("cluster").agg(F.max("day").alias("newest"))
    is_new = F.col("day") > F.date_sub("newest", days)
    return dated.join(F.broadcast(newest), "cluster").where(is_new).drop("newest")


def of_newest_days(rows: DataFrame, hours: DataFrame, days: int) -> DataFrame:
    """Rows with ``at_ms`` of the newest ``days`` days that their cluster has in `BUNDLE_HOURS`."""
    day = F.to_date(F.timestamp_millis("hour_ms"))
    newest = hours.groupBy("cluster").agg(F.max(day).alias("newest"))
    is_new = F.to_date(F.timestamp_millis("at_ms")) > F.date_sub("newest", days)
    return rows.join(F.broadcast(newest), "cluster").where(is_new).drop("newest")


def hour_profiles(hours: DataFrame, days: int) -> DataFrame:
    """Of `BUNDLE_HOURS`, `HOUR_PROFILES` over the newest ``days`` days of each cluster."""
    hour = F.hour(F.timestamp_millis("hour_ms")).alias("hour")
    rows = newest_days(hours, days).select("cluster", "bundle", hour, *MEASURES)
    return _medians(rows, HOUR_PROFILES)


def weekday_profiles(hours: DataFrame, days: int) -> DataFrame:
    """Of `BUNDLE_HOURS`, `WEEKDAY_PROFILES` over the newest ``days`` days of each cluster."""
    means = (F.avg(name).alias(name) for name in MEASURES)
    by_day = newest_days(hours, days).groupBy("cluster", "bundle", "day").agg(*means)
    weekday = (F.weekday("day") + 1).alias("weekday")
    return _medians(by_day.select("cluster", "bundle", weekday, *MEASURES), WEEKDAY_PROFILES)


def _medians(rows: DataFrame, table: Table) -> DataFrame:
    """By the key of the table; a worker has all rows of a bundle."""
    task = MedianTask(table.key, MEASURES, "days")
    columns = (F.col(each.name).cast(each.dataType) for each in task.taken(table.schema))
    by_bundle = rows.select(*columns).repartition("cluster", "bundle")
    return by_bundle.mapInArrow(task, task.given(table.schema))
