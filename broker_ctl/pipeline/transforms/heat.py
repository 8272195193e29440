"""Hot brokers and hours, and the skew of load over brokers."""

from typing import Annotated, Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.history.columns import Doc, kind
from broker_ctl.pipeline.tables import plain
from broker_ctl.pipeline.transforms.hours import newest_days, of_newest_days

# Hot bundles, and the topics that make them so.
#
# The history has the load of bundles, and of their topics only the number: a topic is known to be
# hot where a bundle has no other, or where the leader said so when it could not cut the bundle.


# Why a bundle that is too large stays in one piece: one topic of it is.
_UNCUT: Final = (Reason.HOT_TOPIC.value, Reason.TOO_FEW_TOPICS.value, Reason.INDIVISIBLE.value)


class HotBundleRow(NamedTuple):
    """One of the bundles of a cluster that carry most."""

    cluster: Annotated[str, Doc("its name")]
    rank: Annotated[int, Doc("1 carries most")]
    bundle: Annotated[str, Doc("tenant/namespace/0xLOW_0xHIGH")]
    bytes_s: Annotated[float, Doc("mean of its hours, in and out", "bytes/s")]
    share_ratio: Annotated[float, Doc("of what all bundles of the cluster carry")]
    peak_bytes_s: Annotated[float, Doc("of its busiest hour", "bytes/s")]
    peak_usage_ratio: Annotated[float, Doc("of its fullest hour, 1.0 is all of a mean broker")]
    topics: Annotated[int, Doc("most that it had")]


class HotTopicRow(NamedTuple):
    """One of the bundles of a cluster whose topics carry most each."""

    cluster: Annotated[str, Doc("its name")]
    rank: Annotated[int, Doc("1 carries most for each topic")]
    bundle: Annotated[str, Doc("that the topic is in")]
    topics: Annotated[int, Doc("most that it had; 1: the topic is known to be the hot one")]
    topic_bytes_s: Annotated[float, Doc("of its busiest hour, for each topic", "bytes/s")]
    refusals: Annotated[int, Doc("cycles in which it was too large, and could not be cut")]


HOT_BUNDLES: Final = plain(
    kind("hot_bundles", HotBundleRow, "one row per cluster and rank", *("cluster", "rank"))
)
HOT_TOPICS: Final = plain(
    kind("hot_topics", HotTopicRow, "one row per cluster and rank", *("cluster", "rank"))
)


def hot_bundles(hours: DataFrame, days: int, most: int) -> DataFrame:
    """Of `BUNDLE_HOURS`, the hottest ``most`` of each cluster in its newest days, `HOT_BUNDLES`."""
    hours = newest_days(hours, days)
    whole = Window.partitionBy("cluster")
    # Bundles come and go: what counts is what was carried, not how long the bundle was there.
    carried = F.sum("bytes_s")
    by_bundle = hours.groupBy("cluster", "bundle").agg(
        carried.alias("carried"),
        F.avg("bytes_s").alias("bytes_s"),
        F.max("bytes_s").alias("peak_bytes_s"),
        F.max("usage_ratio").alias("peak_usage_ratio"),
        F.max("topics").alias("topics"),
    )
    share = F.coalesce(F.try_divide("carried", F.sum("carried").over(whole)), F.lit(0.0))
    order = whole.orderBy(F.desc("carried"), "bundle")
    ranked = by_bundle.withColumn("share_ratio", share).withColumn(
        "rank", F.row_number().over(order)
    )
    return ranked.where(F.col("rank") <= most)


def hot_topics(hours: DataFrame, decisions: DataFrame, days: int, most: int) -> DataFrame:
    """Of `BUNDLE_HOURS` and the history's decisions, the first of each cluster, `HOT_TOPICS`.

    Both of the newest ``days`` days.
    """
    decisions, hours = of_newest_days(decisions, hours, days), newest_days(hours, days)
    by_bundle = hours.groupBy("cluster", "bundle").agg(
        F.max("bytes_s").alias("peak_bytes_s"), F.max("topics").alias("topics")
    )
    skipped = decisions.where((F.col("decision") == "skip") & F.col("reason").isin(*_UNCUT))
    refusals = skipped.groupBy("cluster", F.col("subject").alias("bundle")).agg(
        F.count("*").alias("refusals")
    )
    each = by_bundle.where(F.col("topics") > 0).withColumn(
        "topic_bytes_s", F.col("peak_bytes_s") / F.col("topics")
    )
    order = Window.partitionBy("cluster").orderBy(F.desc("topic_bytes_s"), "bundle")
    ranked = each.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= most)
    joined = ranked.join(refusals, ["cluster", "bundle"], "left")
    return joined.withColumn("refusals", F.coalesce("refusals", F.lit(0)))


# How evenly the brokers of a cluster are loaded, over time (docs: imbalance-bounds).


class SkewRow(NamedTuple):
    """A cluster as its leader saw it in one cycle."""

    cluster: Annotated[str, Doc("its name")]
    epoch: Annotated[int, Doc("lead epoch")]
    cycle: Annotated[int, Doc("of the leader, in that epoch")]
    at_ms: Annotated[int, Doc("of the cycle", "ms since 1970")]
    brokers: Annotated[int, Doc("that were there")]
    mean_usage_ratio: Annotated[float, Doc("of them, 1.0 is full")]
    max_usage_ratio: Annotated[float, Doc("of the fullest")]
    max_over_mean: Annotated[float, Doc("the one over the other; 1.0 where there is no load")]
    fullest: Annotated[str, Doc("broker id; of several the last by name")]
    bytes_s: Annotated[float, Doc("of all, in and out", "bytes/s")]


LOAD_SKEW: Final = plain(
    kind("load_skew", SkewRow, "one row per epoch and cycle", *("cluster", "epoch", "cycle"))
)


def load_skew(broker_loads: DataFrame) -> DataFrame:
    """Of the history's broker loads, `LOAD_SKEW`."""
    top = F.max(F.struct("usage_ratio", "broker"))
    by_cycle = broker_loads.groupBy("cluster", "epoch", "cycle").agg(
        F.min("at_ms").alias("at_ms"),
        F.count("*").alias("brokers"),
        F.avg("usage_ratio").alias("mean_usage_ratio"),
        F.max("usage_ratio").alias("max_usage_ratio"),
        top["broker"].alias("fullest"),
        F.sum(F.col("bytes_in") + F.col("bytes_out")).alias("bytes_s"),
    )
    ratio = F.try_divide("max_usage_ratio", "mean_usage_ratio")
    return by_cycle.withColumn("max_over_mean", F.coalesce(ratio, F.lit(1.0)))
