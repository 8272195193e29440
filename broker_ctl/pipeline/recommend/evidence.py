"""What speaks for a candidate: back-tests, and the peaks of days."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_ctl.core.planning.size import DayLoad
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.backtest.results import (
    COMPARISONS,
    DAYS,
    REPLAYS,
    ComparisonRow,
    DayRow,
    Named,
    ReplayRow,
)
from broker_ctl.pipeline.filesystem import resolve_location
from broker_ctl.pipeline.recommend.held_out import FOR, p_value
from broker_ctl.pipeline.recommend.rule import BacktestEvidence
from broker_ctl.pipeline.session import translate_spark_errors
from broker_ctl.pipeline.transforms.hours import BUNDLE_HOURS

# The load of a cluster by the day, from the hours of its bundles.


def read_day_loads(
    spark: SparkSession, profiles: str, cluster: str | None
) -> tuple[str, list[DayLoad]]:
    """The cluster, and the fullest hour of each of its days, the oldest first.

    The load of an hour is the sum over the bundles that were reported in it.

    Args:
        spark: the session.
        profiles: root of the profiles.
        cluster: None: the only one.

    Raises:
        PipelineError: there is no such cluster, several, or none; or tables cannot be read.
    """
    with translate_spark_errors(profiles):
        hours = tables.whole(spark, resolve_location(profiles), BUNDLE_HOURS)
        rows = daily_peaks(hours).orderBy("cluster", "day").collect()
    by_cluster: dict[str, list[DayLoad]] = {}
    for row in rows:
        load = DayLoad(row["day"].isoformat(), float(row["mean_brokers"]))
        by_cluster.setdefault(row["cluster"], []).append(load)
    if not by_cluster:
        raise PipelineError(
            f"{profiles}: no hours of bundles: broker-ctl pipeline profile makes them"
        )
    if cluster is None and len(by_cluster) > 1:
        names = ", ".join(by_cluster)
        raise PipelineError(
            f"{profiles}: advice is for one cluster; --cluster NAME says which: {names}"
        )
    if cluster is not None and cluster not in by_cluster:
        names = ", ".join(by_cluster)
        raise PipelineError(f"{profiles}: no cluster {cluster!r}: one of {names}")
    found = cluster or next(iter(by_cluster))
    return found, by_cluster[found]


def daily_peaks(hours: DataFrame) -> DataFrame:
    """Of `BUNDLE_HOURS`, the load of each cluster's fullest hour of each day, UTC."""
    of_hour = hours.groupBy("cluster", "hour_ms").agg(F.sum("usage_ratio").alias("mean_brokers"))
    day = F.to_date(F.timestamp_millis("hour_ms")).alias("day")
    return of_hour.groupBy("cluster", day).agg(F.max("mean_brokers").alias("mean_brokers"))


# The findings of a back-test, read from its tables.


@dataclass(frozen=True, slots=True)
class Findings:
    """Of one back-test.

    Attributes:
        baseline: the candidate that the others are compared with.
        traces: that were replayed, in the order of their names.
        tried: all others, each with all its evidence.
        days: scores of all by day.
    """

    baseline: Named
    traces: tuple[str, ...]
    tried: Mapping[Named, Sequence[BacktestEvidence]]
    days: Sequence[DayRow] = ()


def read_findings(spark: SparkSession, directory: str) -> Findings:
    """Read the tables that ``pipeline backtest`` has written.

    Raises:
        PipelineError: there are none, they do not fit each other, or cannot be read.
    """
    root = resolve_location(directory)
    with translate_spark_errors(directory):
        replays = [ReplayRow(*row) for row in tables.whole(spark, root, REPLAYS).collect()]
        days = [DayRow(*row) for row in tables.whole(spark, root, DAYS).collect()]
        rows = [ComparisonRow(*row) for row in tables.whole(spark, root, COMPARISONS).collect()]
    if not replays:
        raise PipelineError(
            f"{directory}: no back-test was made here: broker-ctl pipeline backtest does it"
        )
    if not rows:
        raise PipelineError(
            f"{directory}: the back-test holds a baseline and nothing to compare with it: give"
            " broker-ctl pipeline backtest another --policy, or --set KEY=VALUE,VALUE"
        )
    try:
        return replace(findings_of(replays, rows), days=days)
    except ValueError as error:
        raise PipelineError(f"{directory}: {error}: make the back-test again") from error


def findings_of(replays: Iterable[ReplayRow], rows: Sequence[ComparisonRow]) -> Findings:
    """Each comparison with its p-value, which is computed from its replays.

    Raises:
        ValueError: no comparisons, several baselines, or other replays than were compared.
    """
    baselines = {Named(row.baseline_policy, row.baseline_parameters) for row in rows}
    if len(baselines) != 1:
        raise ValueError(f"{len(baselines)} baselines; there must be one")
    (baseline,) = baselines
    played: dict[tuple[str, Named], dict[int, ReplayRow]] = {}
    for replay in replays:
        place = replay.trace, Named(replay.policy, replay.parameters)
        played.setdefault(place, {})[replay.seed] = replay
    tried: dict[Named, list[BacktestEvidence]] = {}
    for row in rows:
        candidate = Named(row.policy, row.parameters)
        pair = (played.get((row.trace, each), {}) for each in (baseline, candidate))
        tried.setdefault(candidate, []).append(BacktestEvidence(row, _chance(row, *pair)))
    return Findings(baseline, tuple(sorted({row.trace for row in rows})), tried)


def _chance(
    row: ComparisonRow, before: Mapping[int, ReplayRow], after: Mapping[int, ReplayRow]
) -> float:
    seeds = sorted(before.keys() & after.keys())
    if len(seeds) != row.pairs:
        raise ValueError(
            f"{row.pairs} pairs of {row.policy} {row.parameters} on {row.trace} were compared,"
            f" {len(seeds)} replayed"
        )
    if row.measure not in FOR or not row.high < 0:
        # It does not speak for the candidate in any case, and a sweep has thousands of them.
        return 1.0
    return p_value(
        [getattr(after[seed], row.measure) - getattr(before[seed], row.measure) for seed in seeds]
    )
