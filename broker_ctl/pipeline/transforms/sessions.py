"""Sessions, leadership terms, and times without an owner."""

from typing import Annotated, Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from broker_ctl.core.history.columns import Doc, kind
from broker_ctl.pipeline.tables import plain


class SessionCountRow(NamedTuple):
    """Session events of one broker on one day."""

    cluster: Annotated[str, Doc("its name")]
    broker: Annotated[str, Doc("broker id")]
    day_ms: Annotated[int, Doc("first moment of the day, UTC", "ms since 1970")]
    event: Annotated[str, Doc("one of core.session.Action")]
    events: Annotated[int, Doc("how often")]


class LeadingRow(NamedTuple):
    """One leadership term of one broker."""

    cluster: Annotated[str, Doc("its name")]
    seat: Annotated[str, Doc("loadbalance or controller")]
    epoch: Annotated[int, Doc("lead epoch")]
    broker: Annotated[str, Doc("broker id")]
    began_ms: Annotated[int, Doc("when it began", "ms since 1970")]
    ended_ms: Annotated[int | None, Doc("when it said that it ended; null: it did not")]
    detail: Annotated[str, Doc("why it ended, in words; may be empty")]
    vacant_s: Annotated[
        float | None,
        Doc("from the last sign of the one before to its begin; null of the first", "s"),
    ]


class HandoverRow(NamedTuple):
    """A bundle that a broker acquired after another one, or the same, had released it."""

    cluster: Annotated[str, Doc("its name")]
    id: Annotated[str, Doc("of the change by which it came")]
    bundle: Annotated[str, Doc("tenant/namespace/0xLOW_0xHIGH")]
    source: Annotated[str, Doc("who gave it up")]
    destination: Annotated[str, Doc("to whom it came")]
    gone_cause: Annotated[str, Doc("why it was given up")]
    come_cause: Annotated[str, Doc("why it came")]
    gone_ms: Annotated[int, Doc("on the clock of the source", "ms since 1970")]
    unserved_s: Annotated[float, Doc("until it came; below 0 where clocks differ", "s")]


SESSION_COUNTS: Final = plain(
    kind(
        "session_counts",
        SessionCountRow,
        "one row per broker, day and kind of event",
        *("cluster", "broker", "day_ms", "event"),
    )
)
LEADINGS: Final = plain(
    kind("leadings", LeadingRow, "one row per seat and epoch", *("cluster", "seat", "epoch"))
)
HANDOVERS: Final = plain(
    kind("handovers", HandoverRow, "one row per bundle that came after it had gone", "id")
)
_DAY_MS: Final = 86_400_000


def session_counts(session_events: DataFrame) -> DataFrame:
    """Of the history's session events, `SESSION_COUNTS`."""
    day_ms = (F.col("at_ms") - F.col("at_ms") % _DAY_MS).alias("day_ms")
    broker = F.col("writer").alias("broker")
    return session_events.groupBy("cluster", broker, day_ms, "event").agg(
        F.count("*").alias("events")
    )


def leader_terms(leader_epochs: DataFrame, load_skew: DataFrame) -> DataFrame:
    """Of the history's leader epochs, `LEADINGS`.

    A leader that dies records no end: then its last cycle in `LOAD_SKEW` counts.
    """
    is_begin = F.col("is_begin")
    begun = leader_epochs.groupBy("cluster", "seat", "epoch").agg(
        F.min(F.when(is_begin, F.col("at_ms"))).alias("began_ms"),
        F.max(F.when(~is_begin, F.col("at_ms"))).alias("ended_ms"),
        F.max("writer").alias("broker"),
        F.max("detail").alias("detail"),
    )
    seen = load_skew.groupBy("cluster", "epoch").agg(F.max("at_ms").alias("seen_ms"))
    seen = seen.withColumn("seat", F.lit("loadbalance"))
    known = begun.where(F.col("began_ms").isNotNull())
    known = known.join(seen, ["cluster", "seat", "epoch"], "left")
    last_ms = F.coalesce("ended_ms", "seen_ms", "began_ms")
    before = F.lag(last_ms).over(Window.partitionBy("cluster", "seat").orderBy("epoch"))
    return known.withColumn("vacant_s", (F.col("began_ms") - before) / 1000)


def handovers(ownership_changes: DataFrame) -> DataFrame:
    """Of the history's changes of owners, `HANDOVERS`."""
    order = Window.partitionBy("cluster", "bundle").orderBy("at_ms", "is_acquired", "id")
    changed = ownership_changes.select(
        *("cluster", "id", "bundle", "is_acquired"),
        F.col("writer").alias("destination"),
        F.col("cause").alias("come_cause"),
        F.col("at_ms").alias("come_ms"),
        F.lag("is_acquired").over(order).alias("was_acquired"),
        F.lag("writer").over(order).alias("source"),
        F.lag("cause").over(order).alias("gone_cause"),
        F.lag("at_ms").over(order).alias("gone_ms"),
    )
    # Before it there must be a loss: a first owner comes after nobody, a dead one has not said so.
    come = changed.where(F.col("is_acquired") & ~F.col("was_acquired"))
    return come.withColumn("unserved_s", (F.col("come_ms") - F.col("gone_ms")) / 1000)
