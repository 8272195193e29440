"""Advice on bundles to split and to merge (docs: planner-sources)."""

from typing import Annotated, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from broker_ctl.core.history.columns import Doc, kind
from broker_ctl.pipeline.tables import plain

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
