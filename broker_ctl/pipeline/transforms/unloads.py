"""The effect of each unload: its brokers before and after."""

from typing import Annotated, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from broker_ctl.core.history.columns import Doc, kind
from broker_ctl.pipeline.tables import plain

_MINUTE_MS: Final = 60_000
_BEFORE: Final = "before"
_AFTER: Final = "after"


class UnloadEffectRow(NamedTuple):
    """A moved bundle and its two brokers; null: not measured."""

    cluster: Annotated[str, Doc("its name")]
    id: Annotated[str, Doc("of the decision")]
    at_ms: Annotated[int, Doc("when it was done", "ms since 1970")]
    bundle: Annotated[str, Doc("that moved")]
    source: Annotated[str, Doc("who gave it up")]
    destination: Annotated[str | None, Doc("who received it; null: a lookup decided")]
    reason: Annotated[str, Doc("one of core.decisions.Reason")]
    moved_bytes_s: Annotated[float | None, Doc("its throughput", "bytes/s")]
    source_before_ratio: Annotated[float | None, Doc("mean usage of the source before")]
    source_after_ratio: Annotated[float | None, Doc("mean usage of the source after")]
    source_foreseen_ratio: Annotated[float | None, Doc("usage that was foreseen for it")]
    destination_before_ratio: Annotated[float | None, Doc("of the receiver, before")]
    destination_after_ratio: Annotated[float | None, Doc("of the receiver, after")]
    destination_foreseen_ratio: Annotated[float | None, Doc("usage that was foreseen for it")]
    skew_before: Annotated[float | None, Doc("mean of the cluster's max_over_mean before")]
    skew_after: Annotated[float | None, Doc("mean of the cluster's max_over_mean after")]


UNLOAD_EFFECTS: Final = plain(
    kind("unload_effects", UnloadEffectRow, "one row per unload that was done", "id")
)


def unload_effects(
    decisions: DataFrame, broker_loads: DataFrame, load_skew: DataFrame, window_min: int
) -> DataFrame:
    """`UNLOAD_EFFECTS` of the history's decisions and broker loads, and of `LOAD_SKEW`.

    Before is from ``window_min`` minutes until just before it was begun, after is from when it was
    done on, as long; the brokers report a moment later what they have less, or more, to do.
    """
    done = decisions.where(
        F.col("decision").isin("unload", "transfer") & (F.col("result") == "done")
    )
    window_ms = window_min * _MINUTE_MS
    spans = _spans(done, window_ms)
    loads = _slice_series(
        broker_loads.select("cluster", "broker", "at_ms", "usage_ratio"), window_ms
    )
    skews = _slice_series(load_skew.select("cluster", "at_ms", "max_over_mean"), window_ms)
    by_source = spans.withColumn("broker", F.col("source"))
    source = _means(by_source, loads, ["cluster", "broker"], "usage_ratio")
    by_receiver = spans.withColumn("broker", F.col("destination"))
    receiver = _means(by_receiver, loads, ["cluster", "broker"], "usage_ratio")
    skew = _means(spans, skews, ["cluster"], "max_over_mean")
    found = done
    for means, name in ((source, "source"), (receiver, "destination"), (skew, "skew")):
        found = found.join(_rename_means(means, name), "id", "left")
    return found.select(
        *("cluster", "id", "at_ms", "bundle", "source", "destination", "reason"),
        F.col("throughput_bytes").alias("moved_bytes_s"),
        F.col("source_before").alias("source_before_ratio"),
        F.col("source_after").alias("source_after_ratio"),
        F.col("source_usage_after_ratio").alias("source_foreseen_ratio"),
        F.col("destination_before").alias("destination_before_ratio"),
        F.col("destination_after").alias("destination_after_ratio"),
        F.col("destination_usage_after_ratio").alias("destination_foreseen_ratio"),
        *("skew_before", "skew_after"),
    )


def _spans(done: DataFrame, window_ms: int) -> DataFrame:
    """Of each unload its two spans of time, in each slice of time that one of them touches.

    A slice is as long as a span: reports are joined by slice, instead of comparing every unload
    with every report.
    """
    begun_ms = F.col("at_ms") - F.round(F.col("took_s") * 1000).cast("long")
    before = _span(_BEFORE, begun_ms - window_ms, begun_ms)
    after = _span(_AFTER, F.col("at_ms"), F.col("at_ms") + window_ms)
    each = done.select(
        *("id", "cluster", "source", "destination"), F.inline(F.array(before, after))
    )
    slices = F.sequence(_slice("from_ms", window_ms), _slice("until_ms", window_ms))
    return each.withColumn("slice", F.explode(slices))


def _span(when: str, from_ms: Column, until_ms: Column) -> Column:
    return F.struct(F.lit(when).alias("when"), from_ms.alias("from_ms"), until_ms.alias("until_ms"))


def _slice(column: str, window_ms: int) -> Column:
    return F.floor(F.col(column) / window_ms).cast("long")


def _slice_series(measured: DataFrame, window_ms: int) -> DataFrame:
    sliced = measured.withColumn("slice", _slice("at_ms", window_ms))
    return sliced.withColumnRenamed("at_ms", "measured_ms")


def _means(spans: DataFrame, measured: DataFrame, subject: list[str], value: str) -> DataFrame:
    """Of each unload the means of a value before and after: id, before, after."""
    at_ms = F.col("measured_ms")
    is_within = (at_ms >= F.col("from_ms")) & (at_ms < F.col("until_ms"))
    paired = spans.join(measured, [*subject, "slice"]).where(is_within)
    return paired.groupBy("id").agg(
        F.avg(F.when(F.col("when") == _BEFORE, F.col(value))).alias(_BEFORE),
        F.avg(F.when(F.col("when") == _AFTER, F.col(value))).alias(_AFTER),
    )


def _rename_means(means: DataFrame, name: str) -> DataFrame:
    return means.select(
        "id", F.col(_BEFORE).alias(f"{name}_before"), F.col(_AFTER).alias(f"{name}_after")
    )
