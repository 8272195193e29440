"""How well the past of a bundle foretells its load: yesterday, and the usual day."""

from typing import Annotated, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from broker_ctl.core.history.columns import Doc, kind
from broker_ctl.pipeline.tables import plain

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
    """Of `BUNDLE_HOURS`, `FORECAST_ERRORS`; a profile covers at most ``days`` days."""
    day = F.floor(F.col("hour_ms") / _DAY_MS)
    hour = F.floor(F.col("hour_ms") % _DAY_MS / 3_600_000)
    dated = hours.withColumn("day", day).withColumn("hour", hour)
    same_hour = Window.partitionBy("cluster", "bundle", "hour").orderBy("day")
    before = F.max("bytes_s").over(same_hour.rangeBetween(-1, -1))
    usual = F.percentile("bytes_s", 0.5).over(same_hour.rangeBetween(-days, -1))
    foretold = dated.withColumn("yesterday", before).withColumn("usual", usual)
    known = foretold.where(F.col("yesterday").isNotNull())
    return known.groupBy("cluster", "bundle").agg(
        F.count("*").alias("hours"),
        F.avg("bytes_s").alias("bytes_s"),
        _over_all(F.abs(F.col("yesterday") - F.col("bytes_s"))).alias("yesterday_error_ratio"),
        _over_all(F.abs(F.col("usual") - F.col("bytes_s"))).alias("profile_error_ratio"),
        _over_all(F.col("usual") - F.col("bytes_s")).alias("profile_bias_ratio"),
    )


def _over_all(difference: Column) -> Column:
    return F.try_divide(F.sum(difference), F.sum("bytes_s"))
