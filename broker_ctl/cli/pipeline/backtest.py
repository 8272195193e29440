"""pipeline backtest: settings against each other on recorded days."""

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import click

from broker_ctl.cli.pipeline.spark import Engine, engine_options, progress_bar
from broker_ctl.cli.replays import SETTINGS, contestant_of
from broker_ctl.cli.runtime.output import echo, echo_json, print_facts, print_table
from broker_ctl.core.planning.decide import CycleRules
from broker_ctl.errors import SettingsError
from broker_ctl.pipeline.backtest.results import Candidate
from broker_ctl.pipeline.backtest.sweeps import Dimension, Point
from broker_ctl.settings.intake import take_in
from broker_ctl.settings.root import DECLARATIONS
from broker_ctl.settings.schema import Entry
from broker_ctl.simulation.replay.replay import POLICIES, Baseline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker_ctl.pipeline.backtest.job import CandidateVerdict
    from broker_ctl.pipeline.backtest.results import ComparisonRow, FrontRow
    from broker_ctl.pipeline.backtest.tasks import BacktestTrace, Task


# Candidates of a back-test: policies by name, and a leader under combinations of settings.


_ORIGIN: Final = "--set"


class Config(NamedTuple):
    """Sources of the leader's settings without --set."""

    file: Path | None
    environment: Mapping[str, str]


class Selection(NamedTuple):
    """The candidates.

    Attributes:
        contradictory: number of combinations that no daemon accepts.
        reason: why the first of them is not accepted.
    """

    candidates: list[Candidate]
    contradictory: int = 0
    reason: str = ""


def check_dimensions(dimensions: Sequence[Dimension]) -> None:
    """Check the keys and values.

    Raises:
        SettingsError: a key is unknown, or a value invalid.
    """
    problems = []
    for each in dimensions:
        intake = take_in((Entry(each.key, value, _ORIGIN) for value in each.values), DECLARATIONS)
        if intake.unknown or intake.unused:
            problems.append(f"{_ORIGIN}: {each.key}: not a setting that a daemon here uses")
        for value in each.values:
            one = take_in([Entry(each.key, value, _ORIGIN)], DECLARATIONS)
            problems += [str(problem) for problem in one.problems]
    if problems:
        raise SettingsError("\n".join(dict.fromkeys(problems)))


def select_candidates(
    policies: Sequence[str],
    config: Config,
    dimensions: Sequence[Dimension],
    points: Sequence[Point],
) -> Selection:
    """Candidates in the order of the policies; the settings as they are come before the points.

    Args:
        policies: names in `POLICIES`, or `SETTINGS`.
        config: settings of the leader for `SETTINGS`.
        dimensions: of the points.
        points: combinations of settings that override ``config``.

    Raises:
        SettingsError: a setting is invalid, no replay depends on a key, or no point is accepted by
            a daemon.
    """
    candidates: list[Candidate] = []
    reasons: list[str] = []
    for policy in dict.fromkeys(policies):
        if policy != SETTINGS:
            candidates.append(Candidate(policy, "", POLICIES[policy]()))
            continue
        usual = _leader(config, ())
        _check_effects(usual, config, dimensions)
        candidates.append(Candidate(SETTINGS, "", usual))
        for point in points:
            try:
                found = _leader(config, point)
            except SettingsError as error:
                # Each value is valid, but not their combination.
                reasons.append(str(error))
            else:
                candidates.append(Candidate(SETTINGS, " ".join(point), found))
        if points and len(reasons) == len(points):
            raise SettingsError(reasons[0])
    return Selection(candidates, len(reasons), next(iter(reasons), ""))


def _leader(config: Config, point: Point) -> Baseline:
    """A leader with only the rules that a replay uses."""
    found = contestant_of(SETTINGS, config.file, config.environment, point)
    rules = {field.name: getattr(found.rules, field.name) for field in fields(CycleRules)}
    return replace(found, rules=CycleRules(**rules))


def _check_effects(usual: Baseline, config: Config, dimensions: Sequence[Dimension]) -> None:
    for each in dimensions:
        if all(found == usual for found in _leaders_per_value(config, each)):
            values = ", ".join(each.values)
            raise SettingsError(
                f"{_ORIGIN}: {each.key}: no replay depends on it, or {values} is already in effect"
            )


def _leaders_per_value(config: Config, dimension: Dimension) -> Iterator[Baseline | None]:
    """The leader with each value of one key alone; None if the value contradicts other settings."""
    for value in dimension.values:
        try:
            yield _leader(config, (f"{dimension.key}={value}",))
        except SettingsError:
            yield None


# Results of a back-test as tables and as JSON.


_COLUMNS: Final = ("policy", "parameters", "seeds", "p99", "moved %/h", "overloaded", "front")
_MEASURES: Final = {"p99": 3, "load_moved_pct_per_h": 2, "overload_broker_min": 1}


def to_row(verdict: "CandidateVerdict") -> dict[str, Any]:
    """Plain JSON values; an unbounded end of an interval is null."""
    return {
        "replays": [row._asdict() for row in verdict.replays],
        "comparisons": [_finite(row._asdict()) for row in verdict.comparisons],
        "front": [row._asdict() for row in verdict.front],
        "faults": [fault.why for fault in verdict.faults],
    }


def show(verdict: "CandidateVerdict") -> None:
    """Print a table for each trace: means of each candidate, and differences to the baseline."""
    for trace, rows in groupby(verdict.front, lambda row: row.trace):
        against = {
            (row.policy, row.parameters, row.measure): row
            for row in verdict.comparisons
            if row.trace == trace
        }
        title = f"{trace}: {_baseline(against.values())}"
        headers = (*_COLUMNS, *(f"{name} against it" for name in _MEASURES))
        print_table(title, headers, _lines(list(rows), against))


def _baseline(comparisons: Iterable["ComparisonRow"]) -> str:
    for row in comparisons:
        named = f"{row.baseline_policy} {row.baseline_parameters}".strip()
        return f"means over the seeds; [95 %] of the difference to {named}"
    return "means over the seeds"


def _lines(
    rows: Sequence["FrontRow"], against: dict[tuple[str, str, str], "ComparisonRow"]
) -> Iterator[tuple[object, ...]]:
    for row in rows:
        found = (against.get((row.policy, row.parameters, measure)) for measure in _MEASURES)
        yield (
            row.policy,
            row.parameters,
            row.seeds,
            f"{row.p99:.3f}",
            f"{row.load_moved_pct_per_h:.2f}",
            f"{row.overload_broker_min:.0f} min",
            row.is_on_front,
            *(each and _interval(each) for each in found),
        )


def _interval(row: "ComparisonRow") -> str:
    digits = _MEASURES[row.measure]
    if math.isinf(row.low):
        return f"{row.difference:+.{digits}f} [one pair]"
    return f"{row.difference:+.{digits}f} [{row.low:+.{digits}f}, {row.high:+.{digits}f}]"


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    is_infinite = {
        name for name, each in row.items() if isinstance(each, float) and math.isinf(each)
    }
    return {name: None if name in is_infinite else each for name, each in row.items()}


# ``broker-ctl pipeline backtest``: replay a history under policies and settings.


_DAY_HOURS: Final = 24
_MOST_TASKS: Final = 100_000
# Failed replays that are listed; one bug of a strategy may fail thousands.
_MAX_FAULTS_SHOWN: Final = 10
_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline backtest diurnal --to results
  broker-ctl pipeline backtest --tables tables --to results
  broker-ctl pipeline backtest --tables tables --cluster east --hours 48 --to results --dry-run
  broker-ctl pipeline backtest --all --policy balance --policy threshold --to results
  broker-ctl pipeline backtest diurnal flash-crowd --to results --seeds 12 \\
      --set loadBalancerPlannerHighPercentage=106,108,112 \\
      --set loadBalancerPlannerLowPercentage=102,104
  broker-ctl pipeline backtest diurnal --to results --random 40 --draw-seed 7 \\
      --set loadBalancerPlannerHighPercentage=105..115 \\
      --set loadBalancerPlannerSteadySeconds=300..2400
"""


@dataclass(frozen=True, slots=True)
class _TraceOptions:
    """Options that select the traces.

    Attributes:
        names: of scenarios.
        clusters: empty: all clusters of the tables.
        hours, brokers: None: the defaults; of a history, all of it.
    """

    names: tuple[str, ...]
    tables: str | None
    clusters: tuple[str, ...]
    hours: int | None
    brokers: int | None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """From the options of the command.

        Raises:
            UsageError: options contradict each other, or there is no such scenario.
        """
        from broker_ctl.simulation.scenarios import NAMES, is_daily

        scope = cls(**{field.name: options[field.name] for field in fields(cls)})
        if options["is_all"] and scope.names:
            raise click.UsageError("either scenarios or --all")
        if scope.clusters and scope.tables is None:
            raise click.UsageError("--cluster requires --tables")
        for name in scope.names:
            if name not in NAMES:
                what = f"{name!r}; one of {', '.join(NAMES)}"
                raise click.BadParameter(what, param_hint="'SCENARIO'")
        is_short = scope.hours is None or scope.hours <= _DAY_HOURS
        every = tuple(name for name in NAMES if is_short or is_daily(name))
        names = every if options["is_all"] else tuple(dict.fromkeys(scope.names))
        if not names and scope.tables is None:
            raise click.UsageError("nothing to replay: name scenarios, or use --all or --tables")
        return replace(scope, names=names)


@dataclass(frozen=True, slots=True)
class _Sweep:
    """Options that select candidates and seeds.

    Attributes:
        texts: values of --set.
        random_count: number of random combinations; None: every combination.
    """

    policies: tuple[str, ...]
    broker_conf: Path | None
    texts: tuple[str, ...]
    random_count: int | None
    draw_seed: int | None
    seeds: int
    first_seed: int

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """From the options of the command.

        Raises:
            UsageError: options contradict each other, or there is no such policy.
        """
        from broker_ctl.cli.replays import SETTINGS
        from broker_ctl.simulation.replay.replay import POLICIES

        sweep = cls(**{field.name: options[field.name] for field in fields(cls)})
        has_settings = sweep.broker_conf is not None or bool(sweep.texts)
        names = sweep.policies or ((SETTINGS,) if has_settings else tuple(POLICIES))
        for name in names:
            if name not in (SETTINGS, *POLICIES):
                what = f"{name!r}; one of {', '.join((SETTINGS, *POLICIES))}"
                raise click.BadParameter(what, param_hint="'--policy'")
        if has_settings and SETTINGS not in names:
            raise click.UsageError(f"--broker-conf and --set are for --policy {SETTINGS}")
        if sweep.random_count is not None and not sweep.texts:
            raise click.UsageError("--random requires --set")
        if sweep.random_count is None and sweep.draw_seed is not None:
            raise click.UsageError("--draw-seed requires --random")
        # With --set, the settings without it are the baseline.
        ordered = sorted(names, key=lambda name: name != SETTINGS) if sweep.texts else names
        return replace(sweep, policies=tuple(ordered))

    @property
    def every_seed(self) -> range:
        """Consecutive seeds."""
        return range(self.first_seed, self.first_seed + self.seeds)


@click.command(name="backtest", epilog=_EXAMPLES)
@click.argument("names", nargs=-1, metavar="[SCENARIO]...")
@click.option(
    "--to", "target", required=True, metavar="DIR", help="Output directory of the results."
)
@click.option(
    "--all",
    "is_all",
    is_flag=True,
    help="All scenarios; over two days, only those with a daily pattern.",
)
@click.option("--tables", metavar="DIR", help="Tables of a history, whose clusters are replayed.")
@click.option(
    "--cluster", "clusters", multiple=True, help="Only this cluster of the tables; repeatable."
)
@click.option(
    "--hours",
    type=click.IntRange(min=1),
    help=(
        "Duration of a scenario, or of the newest part of a history.  [default: 24; the "
        "whole history]"
    ),
)
@click.option(
    "--brokers",
    type=click.IntRange(min=2),
    help="Number of brokers of a scenario.  [default: 10]",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help=(
        "Policy to replay, as in broker-ctl simulate: balance, settings, overload, "
        "threshold, uniform, avg, avg5, transfer; repeatable. The baseline is the first one, or"
        " settings if --set varies them.  [default: settings if any are given, otherwise "
        "all others]"
    ),
)
@click.option(
    "--broker-conf",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file (broker.conf) of the policy settings.",
)
@click.option(
    "--set",
    "texts",
    multiple=True,
    metavar="KEY=V1,V2",
    help=(
        "Values of a setting to try, in every combination; with --random: KEY=LOW..HIGH; "
        "repeatable."
    ),
)
@click.option(
    "--random", "random_count", type=click.IntRange(min=1), help="Number of random combinations."
)
@click.option(
    "--draw-seed",
    type=click.IntRange(min=0),
    help="Seed of the random combinations.  [default: 0]",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Number of seeds per candidate.",
)
@click.option(
    "--first-seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="First seed, the same as --seed of broker-ctl simulate; the others follow it.",
)
@click.option("--dry-run", "is_dry", is_flag=True, help="Only show what would be replayed.")
@engine_options
def command(engine: Engine, /, *, target: str, is_dry: bool, **options: Any) -> None:
    """Replay scenarios, or recorded traffic of clusters, under every candidate and seed.

    A candidate is a policy, or a leader under --broker-conf, the environment and one combination of
    --set; decisions are made by the daemon's code. A seed determines the traffic of a scenario; for
    recorded traffic, it determines the initial owners (0: the recorded ones).

    Writes the tables backtest_replays, backtest_comparisons (each candidate against the baseline on
    the same seeds, with 95 % intervals) and backtest_front (candidates that no other one beats in
    p99 imbalance, moved load and overloaded minutes), replacing existing ones. A candidate with a
    failed replay is reported and omitted; the exit code is then 1.
    """
    scope, sweep = _TraceOptions.of(options), _Sweep.of(options)
    candidates = _candidates(sweep)
    with ExitStack() as stack:
        # A dry run without tables needs no Spark.
        spark = None if is_dry and scope.tables is None else stack.enter_context(engine.running())
        traces = _traces(engine, spark, scope)
        if (count := len(traces) * len(candidates) * len(sweep.every_seed)) > _MOST_TASKS:
            raise click.UsageError(f"{count} replays; at most {_MOST_TASKS}")
        if spark is None or is_dry:
            _show_plan(engine, [each.name for each in traces], candidates, sweep.every_seed)
            return
        from broker_ctl.pipeline.backtest.tasks import tasks_of

        _replay(engine, spark, tasks_of(traces, candidates, sweep.every_seed), target)


def _candidates(sweep: _Sweep) -> "list[Candidate]":
    """The baseline comes first."""
    from broker_ctl.pipeline.backtest.sweeps import dimension, grid, sample_grid

    dimensions = [dimension(text) for text in sweep.texts]
    check_dimensions(dimensions)
    if sweep.random_count is None:
        points = grid(dimensions)
    else:
        points = sample_grid(dimensions, sweep.random_count, sweep.draw_seed or 0)
    config = Config(sweep.broker_conf, os.environ)
    found = select_candidates(sweep.policies, config, dimensions, points)
    if found.contradictory:
        count_sentence = (
            f"{found.contradictory} of {len(points)} combinations contradict themselves and are"
        )
        echo(f"{count_sentence} left out, such as: {found.reason}", err=True)
    return found.candidates


def _traces(
    engine: Engine, spark: "SparkSession | None", scope: _TraceOptions
) -> "list[BacktestTrace]":
    from broker_ctl.pipeline.backtest.tasks import recorded_trace, synthetic_trace
    from broker_ctl.simulation.workload.scenario_workload import WorkloadSource

    hours = _DAY_HOURS if scope.hours is None else scope.hours
    traces = [synthetic_trace(WorkloadSource(name, hours, scope.brokers)) for name in scope.names]
    if spark is None or scope.tables is None:
        return traces
    from broker_ctl.pipeline.backtest.recorded import build_scenario
    from broker_ctl.pipeline.backtest.recordings import Recordings

    recordings = Recordings(spark, engine.location(scope.tables))
    there = recordings.clusters()
    for cluster in scope.clusters:
        if cluster not in there:
            what = f"{cluster!r}; {scope.tables} has {', '.join(there)}"
            raise click.BadParameter(what, param_hint="'--cluster'")
    for cluster in dict.fromkeys(scope.clusters or there):
        scenario = build_scenario(recordings.history(cluster, scope.hours))
        traces.append(recorded_trace(scenario.name, spark.sparkContext.broadcast(scenario)))
    return traces


def _show_plan(
    engine: Engine, traces: Sequence[str], candidates: "Sequence[Candidate]", seeds: range
) -> None:
    facts: dict[str, Any] = {
        "replays": len(traces) * len(candidates) * len(seeds),
        "seeds": f"{seeds[0]} to {seeds[-1]}",
        "traces": [{"trace": each} for each in traces],
        "candidates": [each.named._asdict() for each in candidates],
    }
    if engine.is_json:
        echo_json(facts)
    else:
        print_facts("", facts)


def _replay(engine: Engine, spark: "SparkSession", tasks: "Sequence[Task]", target: str) -> None:
    from broker_ctl.pipeline.backtest.job import backtest

    with progress_bar(engine, f"{len(tasks)} replays") as update:

        def progress(done: int) -> None:
            update(f"{done} of {len(tasks)} replays", done, len(tasks))

        progress(0)
        verdict = backtest(spark, tasks, tasks[0].candidate.named, target, progress)
    if engine.is_json:
        echo_json(to_row(verdict))
    else:
        show(verdict)
    if verdict.faults:
        for fault in verdict.faults[:_MAX_FAULTS_SHOWN]:
            echo(fault.why, err=True)
        raise click.ClickException(
            f"{len(verdict.faults)} of {len(tasks)} replays failed; their candidates are omitted"
        )
