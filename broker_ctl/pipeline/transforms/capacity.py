"""Fits the capacity of brokers, and compares it with the reported one."""

from typing import Annotated, Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from broker_ctl.core.history.columns import Doc, kind
from broker_ctl.pipeline.tables import plain


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
