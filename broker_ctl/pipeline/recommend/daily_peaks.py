"""The load of a cluster by the day, from the hours of its bundles."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_ctl.core.planning.size_history import DayLoad
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.filesystem import resolve_location
from broker_ctl.pipeline.spark_errors import translate_spark_errors
from broker_ctl.pipeline.transforms.hours import BUNDLE_HOURS


def read_day_loads(
    spark: SparkSession, profiles: str, cluster: str | None
) -> tuple[str, list[DayLoad]]:
    """The cluster, and the fullest hour of each of its days, the oldest first.

    The load of an hour is the sum over the bundles that were reported in it.

    Args:
        spark: the session.
        profiles: root of the profiles.
        cluster: None: the only one.

    Raises:
        PipelineError: there is no such cluster, several, or none; or tables cannot be read.
    """
    with translate_spark_errors(profiles):
        hours = tables.whole(spark, resolve_location(profiles), BUNDLE_HOURS)
        rows = daily_peaks(hours).orderBy("cluster", "day").collect()
    by_cluster: dict[str, list[DayLoad]] = {}
    for row in rows:
        load = DayLoad(row["day"].isoformat(), float(row["mean_brokers"]))
        by_cluster.setdefault(row["cluster"], []).append(load)
    if not by_cluster:
        raise PipelineError(
            f"{profiles}: no hours of bundles: broker-ctl pipeline profile makes them"
        )
    if cluster is None and len(by_cluster) > 1:
        names = ", ".join(by_cluster)
        raise PipelineError(
            f"{profiles}: advice is for one cluster; --cluster NAME says which: {names}"
        )
    if cluster is not None and cluster not in by_cluster:
        names = ", ".join(by_cluster)
        raise PipelineError(f"{profiles}: no cluster {cluster!r}: one of {names}")
    found = cluster or next(iter(by_cluster))
    return found, by_cluster[found]


def daily_peaks(hours: DataFrame) -> DataFrame:
    """Of `BUNDLE_HOURS`, the load of each cluster's fullest hour of each day, UTC."""
    of_hour = hours.groupBy("cluster", "hour_ms").agg(F.sum("usage_ratio").alias("mean_brokers"))
    day = F.to_date(F.timestamp_millis("hour_ms")).alias("day")
    return of_hour.groupBy("cluster", day).agg(F.max("mean_brokers").alias("mean_brokers"))
