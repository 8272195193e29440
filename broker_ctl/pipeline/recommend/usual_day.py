"""The usual day of bundles, and the placement that suits it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.cluster.plan_file import PlanFile
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.strategies.balance.profile import (
    HOURS,
    NOBODY,
    Origin,
    plan_file,
    profile_placement,
)
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.filesystem import resolve_location
from broker_ctl.pipeline.session import translate_spark_errors
from broker_ctl.pipeline.tables import HISTORY
from broker_ctl.pipeline.transforms.hours import (
    BUNDLE_HOURS,
    HOUR_PROFILES,
    newest_days,
    select_latest_cycle,
)
from broker_ctl.pipeline.warehouse import open_warehouse

# A cluster on its usual day, read from tables: the load of each bundle by hour, and its owner.


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


# The placement plan of a usual day, as the file that a leader judges.


_FEWEST_BROKERS: Final = 2


@dataclass(frozen=True, slots=True)
class Placement:
    """A plan, and what it was made of.

    Attributes:
        moved_ratio: load that changes hands over all load.
        bundles: that are there.
        unprofiled: of them, those that stay where they are since hours of their day are not known.
    """

    file: PlanFile
    moved_ratio: float
    bundles: int
    unprofiled: int

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values, without the moves."""
        file = self.file
        return {
            "cluster": file.cluster,
            "hash": file.hash,
            "from_ms": file.from_ms,
            "to_ms": file.to_ms,
            "bundles": self.bundles,
            "unprofiled": self.unprofiled,
            "moves": len(file.moves),
            "moved_ratio": self.moved_ratio,
            "worst_hour_before": max(file.before),
            "worst_hour_after": max(file.after),
        }


def placement_of(day: UsualDay, made_ms: int) -> Placement:
    """Who should have what.

    A bundle of which not all hours are known stays; it counts with the mean of those that are.

    Raises:
        PipelineError: too little is known, or there is nobody to move anything to.
    """
    _check(day)
    brokers = sorted(day.sizes)
    numbers = {broker: number for number, broker in enumerate(brokers)}
    load = np.array([_fill_hours(each.hours) for each in day.bundles])
    is_known = np.array([None not in each.hours for each in day.bundles])
    # What a broker has that is gone or drained is placed; who places it is the leader, at once.
    owner = np.array([numbers.get(each.owner or "", NOBODY) for each in day.bundles], np.int32)
    sizes = np.array([day.sizes[broker] for broker in brokers])
    placement = profile_placement(load, owner, sizes, is_movable=is_known)
    file = plan_file(
        placement,
        Origin(day.cluster, made_ms, day.from_ms, day.to_ms),
        [Bundle.parse(each.bundle) for each in day.bundles],
        brokers,
        load=load,
        owner=owner,
    )
    unprofiled = len(is_known) - int(is_known.sum())
    return Placement(file, placement.moved_ratio, len(day.bundles), unprofiled)


def _check(day: UsualDay) -> None:
    where = f"cluster {day.cluster}"
    known = _known_hours(day.bundles)
    if len(known) < HOURS:
        hours = ", ".join(map(str, known)) or "none"
        raise PipelineError(
            f"{where}: its daily profile knows {len(known)} of {HOURS} hours (UTC: {hours}), a plan"
            " needs them all: let it run for a day, then take in and profile its history again"
        )
    if len(day.sizes) < _FEWEST_BROKERS:
        raise PipelineError(
            f"{where}: {len(day.sizes)} brokers take bundles, a plan needs at least"
            f" {_FEWEST_BROKERS}"
        )


def _known_hours(bundles: Sequence[DayOfBundle]) -> list[int]:
    return [hour for hour in range(HOURS) if any(each.hours[hour] is not None for each in bundles)]


def _fill_hours(hours: Sequence[float | None]) -> "Floats":
    known = [each for each in hours if each is not None]
    mean = sum(known) / len(known) if known else 0.0
    return np.array([mean if each is None else each for each in hours])
