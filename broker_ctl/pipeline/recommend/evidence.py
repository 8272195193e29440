"""The findings of a back-test, read from its tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.backtest.candidates import Named
from broker_ctl.pipeline.backtest.results import (
    COMPARISONS,
    DAYS,
    REPLAYS,
    ComparisonRow,
    DayRow,
    ReplayRow,
)
from broker_ctl.pipeline.filesystem import resolve_location
from broker_ctl.pipeline.recommend.held_out import FOR
from broker_ctl.pipeline.recommend.permutation_test import p_value
from broker_ctl.pipeline.recommend.rule import Evidence
from broker_ctl.pipeline.spark_errors import translate_spark_errors


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
    tried: Mapping[Named, Sequence[Evidence]]
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
    tried: dict[Named, list[Evidence]] = {}
    for row in rows:
        candidate = Named(row.policy, row.parameters)
        pair = (played.get((row.trace, each), {}) for each in (baseline, candidate))
        tried.setdefault(candidate, []).append(Evidence(row, _chance(row, *pair)))
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
