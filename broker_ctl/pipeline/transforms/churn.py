"""Ownership churn and moved load, by cause (docs: imbalance-bounds)."""

from typing import Annotated, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from broker_ctl.core.history.columns import Doc, kind
from broker_ctl.pipeline.tables import plain

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
