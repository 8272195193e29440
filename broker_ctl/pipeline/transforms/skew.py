"""How evenly the brokers of a cluster are loaded, over time (docs: imbalance-bounds)."""

from typing import Annotated, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from broker_ctl.core.history.columns import Doc, kind
from broker_ctl.pipeline.tables import plain


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
