"""A cluster on its usual day, read from tables: the load of each bundle by hour, and its owner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_ctl.core.strategies.balance.profile import HOURS
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.filesystem import resolve_location
from broker_ctl.pipeline.latest_cycle import select_latest_cycle
from broker_ctl.pipeline.spark_errors import translate_spark_errors
from broker_ctl.pipeline.tables import HISTORY
from broker_ctl.pipeline.transforms.hours import BUNDLE_HOURS, HOUR_PROFILES, newest_days
from broker_ctl.pipeline.warehouse import open_warehouse

_HOUR_MS: Final = 3_600_000


class DayOfBundle(NamedTuple):
    """A bundle that is there.

    Attributes:
        owner: broker id; None: nobody.
        hours: part of a mean broker that it takes in each hour of the day, UTC; None where that is
            not known.
    """

    bundle: str
    owner: str | None
    hours: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class UsualDay:
    """Of one cluster.

    Attributes:
        from_ms, to_ms: what it was made of, since 1970.
        sizes: capacity of each broker that is there and takes bundles, over that of the mean one.
        bundles: in the order of their names.
    """

    cluster: str
    from_ms: int
    to_ms: int
    sizes: Mapping[str, float]
    bundles: Sequence[DayOfBundle]


def read_usual_day(spark: SparkSession, source: str, target: str, cluster: str | None) -> UsualDay:
    """What the profiles say of the bundles that the newest cycle of the history has.

    Args:
        spark: the session.
        source: root of the tables of the history.
        target: root of the profiles.
        cluster: None: the only one.

    Raises:
        PipelineError: there is no such cluster, several, or none; or tables cannot be read.
    """
    with translate_spark_errors(target):
        profiles = tables.whole(spark, resolve_location(target), HOUR_PROFILES)
        hours = tables.whole(spark, resolve_location(target), BUNDLE_HOURS)
        found = _choose_cluster(profiles, target, cluster)
        of_one = F.col("cluster") == found
        days = profiles.where(of_one).agg(F.max("days")).head()
        span = _span(newest_days(hours.where(of_one), days[0] if days else 1))
        by_bundle = _by_bundle(profiles.where(of_one))
    with translate_spark_errors(source):
        history = open_warehouse(spark, source)
        brokers, bundles, capacities = (
            history.read(HISTORY[name]).where(of_one)
            for name in ("broker_loads", "bundle_loads", "capacities")
        )
        cycle = select_latest_cycle(brokers)
        if cycle is None:
            raise PipelineError(f"{source}: nothing of brokers of cluster {found} was taken in")
        sizes = _sizes(brokers.where(cycle), capacities)
        there = bundles.where(cycle).select("bundle", "owner", "at_ms")
        rows = there.join(by_bundle, "bundle", "left").orderBy("bundle").collect()
    nothing = [None] * HOURS
    return UsualDay(
        cluster=found,
        from_ms=span[0],
        # Its last hour may not be over.
        to_ms=min([span[1], *(row["at_ms"] for row in rows)]),
        sizes=sizes,
        bundles=[DayOfBundle(row["bundle"], row["owner"], row["hours"] or nothing) for row in rows],
    )


def _choose_cluster(profiles: DataFrame, target: str, cluster: str | None) -> str:
    names = sorted(row["cluster"] for row in profiles.select("cluster").distinct().collect())
    if not names:
        raise PipelineError(f"{target}: no daily profiles: broker-ctl pipeline profile makes them")
    if cluster is None and len(names) > 1:
        raise PipelineError(
            f"{target}: a plan is for one cluster; --cluster NAME says which: {', '.join(names)}"
        )
    if cluster is not None and cluster not in names:
        raise PipelineError(f"{target}: no cluster {cluster!r}: one of {', '.join(names)}")
    return cluster or names[0]


def _span(hours: DataFrame) -> tuple[int, int]:
    ends = hours.agg(F.min("hour_ms"), F.max("hour_ms")).head()
    if ends is None or ends[0] is None:
        raise PipelineError("no hours of bundles beside the daily profiles: make both again")
    return int(ends[0]), int(ends[1]) + _HOUR_MS


def _by_bundle(profiles: DataFrame) -> DataFrame:
    hours = F.map_from_entries(F.collect_list(F.struct("hour", "usage_ratio")))
    usage = F.array(*(F.try_element_at("by_hour", F.lit(hour)) for hour in range(HOURS)))
    by_hour = profiles.groupBy("bundle").agg(hours.alias("by_hour"))
    return by_hour.select("bundle", usage.alias("hours"))


def _sizes(brokers: DataFrame, capacities: DataFrame) -> dict[str, float]:
    """Sizes of brokers that accept bundles: the newest one recorded, else 1.0."""
    newest = capacities.groupBy("broker").agg(
        F.max_by("size_ratio", F.struct("epoch", "cycle")).alias("size_ratio")
    )
    taking = brokers.where(~F.col("is_draining")).select("broker")
    sized = taking.join(newest, "broker", "left").orderBy("broker").collect()
    return {row["broker"]: row["size_ratio"] or 1.0 for row in sized}
