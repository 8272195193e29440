"""Moves of bundles and their unloads."""

from typing import Annotated, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from broker_ctl.core.history.columns import Doc, kind
from broker_ctl.pipeline.tables import plain

# Ownership churn and moved load, by cause (docs: imbalance-bounds).


_HOUR_MS: Final = 3_600_000
# The effect of a decision on a bundle; a skip has none.
_MOVING: Final = ("assign", "transfer", "unload", "split", "merge")


class OwnershipChurnRow(NamedTuple):
    """Bundles that came to brokers or left them, in one hour and for one cause."""

    cluster: Annotated[str, Doc("its name")]
    hour_ms: Annotated[int, Doc("its first moment", "ms since 1970")]
    cause: Annotated[str, Doc("one of core.history.decisions.OwnershipCause")]
    acquired: Annotated[int, Doc("times that a bundle came to a broker")]
    released: Annotated[int, Doc("times that a bundle left one")]
    bundles: Annotated[int, Doc("different ones")]


class MovedLoadRow(NamedTuple):
    """Load that the leader's executed decisions moved in one hour for one reason."""

    cluster: Annotated[str, Doc("its name")]
    hour_ms: Annotated[int, Doc("its first moment", "ms since 1970")]
    decision: Annotated[str, Doc("assign, unload, transfer, split or merge")]
    reason: Annotated[str, Doc("one of core.decisions.Reason")]
    decisions: Annotated[int, Doc("that were carried out")]
    failures: Annotated[int, Doc("that were not, though they were tried")]
    moved_bytes_s: Annotated[float, Doc("throughput of what moved", "bytes/s")]
    moved_ratio: Annotated[
        float | None, Doc("the same over all throughput; null where nothing was measured")
    ]
    took_s: Annotated[float, Doc("mean, of those that were carried out", "s")]


OWNERSHIP_CHURN: Final = plain(
    kind(
        "ownership_churn",
        OwnershipChurnRow,
        "one row per hour and cause",
        *("cluster", "hour_ms", "cause"),
    )
)
MOVED_LOAD: Final = plain(
    kind(
        "moved_load",
        MovedLoadRow,
        "one row per hour, kind of decision and reason",
        *("cluster", "hour_ms", "decision", "reason"),
    )
)


def ownership_churn(ownership_changes: DataFrame) -> DataFrame:
    """Of the history's changes of owners, `OWNERSHIP_CHURN`."""
    return ownership_changes.groupBy("cluster", _hour_ms(), "cause").agg(
        F.count_if("is_acquired").alias("acquired"),
        F.count_if(~F.col("is_acquired")).alias("released"),
        F.countDistinct("bundle").alias("bundles"),
    )


def moved_load(decisions: DataFrame, load_skew: DataFrame) -> DataFrame:
    """Of the history's decisions, and of what `LOAD_SKEW` says was carried, `MOVED_LOAD`."""
    tried = decisions.where(
        F.col("decision").isin(*_MOVING) & F.col("result").isin("done", "failed")
    )
    is_done = F.col("result") == "done"
    moved = F.when(is_done, F.coalesce("throughput_bytes", F.lit(0.0)))
    by_reason = tried.groupBy("cluster", _hour_ms(), "decision", "reason").agg(
        F.count_if(is_done).alias("decisions"),
        F.count_if(~is_done).alias("failures"),
        F.coalesce(F.sum(moved), F.lit(0.0)).alias("moved_bytes_s"),
        F.coalesce(F.avg(F.when(is_done, F.col("took_s"))), F.lit(0.0)).alias("took_s"),
    )
    carried = load_skew.groupBy("cluster", _hour_ms()).agg(F.avg("bytes_s").alias("carried"))
    joined = by_reason.join(carried, ["cluster", "hour_ms"], "left")
    return joined.withColumn("moved_ratio", F.try_divide("moved_bytes_s", "carried"))


def _hour_ms() -> Column:
    return (F.col("at_ms") - F.col("at_ms") % _HOUR_MS).alias("hour_ms")


# The effect of each unload: its brokers before and after.


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
