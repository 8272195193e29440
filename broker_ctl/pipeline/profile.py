"""The profile job: computes every table of `RESULTS` from a warehouse, one after the other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_ctl.core.history.columns import Doc, kind
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.checks import check_each
from broker_ctl.pipeline.filesystem import resolve_location
from broker_ctl.pipeline.location import Location
from broker_ctl.pipeline.session import translate_spark_errors
from broker_ctl.pipeline.tables import DAY, HISTORY, LINES, Table, plain
from broker_ctl.pipeline.transforms import churn, forecasts, heat, hours, sessions
from broker_ctl.pipeline.warehouse import open_filled


@dataclass(frozen=True, slots=True)
class ProfileJobRules:
    """Rules of the profiles.

    Attributes:
        days: newest ones of each cluster that make a usual day or week, and in which hot bundles
            and forecasts are judged.
        hot: how many hot bundles are named of each cluster.
        window_min: before and after an unload that are compared.
        split_ratio, merge_ratio: of a mean broker; see `shapes.shape_advice`.
    """

    days: int
    hot: int
    window_min: int
    split_ratio: float
    merge_ratio: float


class ProfiledDayRow(NamedTuple):
    """A day that a result was computed from."""

    profile: Annotated[str, Doc("name of the result")]
    source: Annotated[str, Doc("root of the tables of the history")]
    day: Annotated[str, Doc("of the history, ISO 8601")]
    lines: Annotated[int, Doc("that the day had then")]


PROFILED_DAYS: Final = plain(
    kind(
        "profiled_days",
        ProfiledDayRow,
        "one row per result and day that it was computed from",
        *("profile", "day"),
    )
)


class Material:
    """Inputs of a result: tables of the history, and earlier results.

    Args:
        spark: the session.
        source: location of the history. target: root of the results.
        rules: for those results that want some.

    Attributes:
        days: of the history that a result is computed from, if it is computed by day.

    Raises:
        PipelineError: nothing was taken in.
    """

    def __init__(
        self, spark: SparkSession, source: str, target: str, rules: ProfileJobRules
    ) -> None:
        self.rules = rules
        self.days: frozenset[str] = frozenset()
        self._spark = spark
        self._target = target
        # With Parquet, one snapshot for all results, even if another ingest runs meanwhile.
        self._history = open_filled(spark, source)

    def history(self, name: str) -> DataFrame:
        """A table of the history."""
        return self._history.read(HISTORY[name])

    def new_history(self, name: str) -> DataFrame:
        """The `days` of a table of the history."""
        days = [date.fromisoformat(day) for day in sorted(self.days)]
        return self.history(name).where(F.col(DAY).isin(days))

    def lines_by_day(self, name: str) -> dict[str, int]:
        """Number of lines that a table of the history was made of, by day."""
        lines = self._history.read(LINES)
        counts = lines.where(F.col("kind") == name).groupBy(DAY).count().collect()
        return {str(day): count for day, count in counts}

    def bundle_hour_sums(self) -> DataFrame:
        """`hourly.SUMS` of the bundle loads of `days`."""
        return self._history.bundle_hour_sums(self.days)

    def made(self, table: Table) -> DataFrame:
        """A result."""
        return tables.whole(self._spark, self._target, table)


@dataclass(frozen=True, slots=True)
class Result:
    """A table that is computed from others.

    Attributes:
        needs: names of the results that it is computed from.
        by_day: table of the history that each day of the result is computed from; a day to which
            no lines came since is left as it is. Empty: the result is replaced as a whole.
        at: column with a moment of the day, of a result by day.
    """

    table: Table
    make: Callable[[Material], DataFrame]
    needs: tuple[str, ...] = ()
    by_day: str = ""
    at: str = "at_ms"


class Made(NamedTuple):
    """A result that was written."""

    name: str
    rows: int


def _results(*results: Result) -> Mapping[str, Result]:
    return {each.table.name: each for each in results}


_SKEW: Final = heat.LOAD_SKEW.name
_HOURS: Final = hours.BUNDLE_HOURS.name
# Inputs of other results come before them.
RESULTS: Final = _results(
    Result(
        heat.LOAD_SKEW,
        lambda of: heat.load_skew(of.new_history("broker_loads")),
        by_day="broker_loads",
    ),
    Result(
        hours.BUNDLE_HOURS,
        lambda of: hours.bundle_hours(of.bundle_hour_sums()),
        by_day="bundle_loads",
        at="hour_ms",
    ),
    Result(
        hours.HOUR_PROFILES,
        lambda of: hours.hour_profiles(of.made(hours.BUNDLE_HOURS), of.rules.days),
        (_HOURS,),
    ),
    Result(
        hours.WEEKDAY_PROFILES,
        lambda of: hours.weekday_profiles(of.made(hours.BUNDLE_HOURS), of.rules.days),
        (_HOURS,),
    ),
    Result(
        heat.HOT_BUNDLES,
        lambda of: heat.hot_bundles(of.made(hours.BUNDLE_HOURS), of.rules.days, of.rules.hot),
        (_HOURS,),
    ),
    Result(
        heat.HOT_TOPICS,
        lambda of: heat.hot_topics(
            of.made(hours.BUNDLE_HOURS), of.history("decisions"), of.rules.days, of.rules.hot
        ),
        (_HOURS,),
    ),
    Result(
        churn.OWNERSHIP_CHURN, lambda of: churn.ownership_churn(of.history("ownership_changes"))
    ),
    Result(
        churn.MOVED_LOAD,
        lambda of: churn.moved_load(of.history("decisions"), of.made(heat.LOAD_SKEW)),
        (_SKEW,),
    ),
    Result(
        churn.UNLOAD_EFFECTS,
        lambda of: churn.unload_effects(
            of.history("decisions"),
            of.history("broker_loads"),
            of.made(heat.LOAD_SKEW),
            of.rules.window_min,
        ),
        (_SKEW,),
    ),
    Result(
        sessions.SESSION_COUNTS, lambda of: sessions.session_counts(of.history("session_events"))
    ),
    Result(
        sessions.LEADINGS,
        lambda of: sessions.leader_terms(of.history("leader_epochs"), of.made(heat.LOAD_SKEW)),
        (_SKEW,),
    ),
    Result(sessions.HANDOVERS, lambda of: sessions.handovers(of.history("ownership_changes"))),
    Result(
        forecasts.CAPACITY_FIT,
        lambda of: forecasts.capacity_fit(of.history("broker_loads"), of.history("capacities")),
    ),
    Result(
        forecasts.SHAPE_ADVICE,
        lambda of: forecasts.shape_advice(
            of.made(hours.HOUR_PROFILES),
            of.made(hours.BUNDLE_HOURS),
            of.rules.split_ratio,
            of.rules.merge_ratio,
        ),
        (_HOURS, hours.HOUR_PROFILES.name),
    ),
    Result(
        forecasts.FORECAST_ERRORS,
        lambda of: forecasts.forecast_errors(of.made(hours.BUNDLE_HOURS), of.rules.days),
        (_HOURS,),
    ),
)


def select_results(names: Sequence[str]) -> list[Result]:
    """These results and their inputs, in the order in which they are computed.

    Raises:
        PipelineError: there is no such result.
    """
    asked = set(names)
    for name in names:
        if name not in RESULTS:
            raise PipelineError(f"{name!r} is not a result: one of {', '.join(RESULTS)}")
        asked.update(RESULTS[name].needs)
    return [result for name, result in RESULTS.items() if name in asked]


def profile(
    spark: SparkSession,
    source: str,
    target: str,
    results: Sequence[Result],
    rules: ProfileJobRules,
    *,
    on_result: Callable[[str], None] = lambda _: None,
) -> list[Made]:
    """Replace results one after the other, then check each against its table, in one job.

    Args:
        spark: the session.
        source: location of the tables that `ingest` writes.
        target: root of the results.
        results: see `select_results`.
        rules: what they are of.
        on_result: hears the name of each result that is written.

    Raises:
        PipelineError: nothing was taken in, or something cannot be read or written.
    """
    with translate_spark_errors(source):
        place = resolve_location(target)
        material = Material(spark, str(Location.of(source)), place, rules)
        days = _Days(material, str(Location.of(source)))
        for result in results:
            if result.by_day:
                _update(material, result, days, place)
            else:
                tables.replace(result.make(material), place, result.table)
            on_result(result.table.name)
        written = [result.table for result in results]
        rows = check_each([(material.made(table), table) for table in written])
        # A day that fails its check is computed again.
        if days.are_new:
            frame = spark.createDataFrame(days.rows(), PROFILED_DAYS.schema)
            tables.replace(frame.coalesce(1), place, PROFILED_DAYS)
        return [Made(table.name, rows[table.name]) for table in written]


class _Days:
    """The days that results were computed from.

    Args:
        material: with the table of them, as it was.
        source: root of the tables of the history.
    """

    def __init__(self, material: Material, source: str) -> None:
        self._source = source
        self._rows = [ProfiledDayRow(*row) for row in material.made(PROFILED_DAYS).collect()]
        self.are_new = False

    def lines_of(self, result: Result) -> dict[str, int]:
        """The lines of each day that it was computed from; none of another history."""
        name = result.table.name
        same = [row for row in self._rows if (row.profile, row.source) == (name, self._source)]
        return {row.day: row.lines for row in same}

    def replace(self, result: Result, lines: Mapping[str, int]) -> None:
        """Its days are these now."""
        name = result.table.name
        others = [row for row in self._rows if row.profile != name]
        now = [ProfiledDayRow(name, self._source, day, count) for day, count in lines.items()]
        self._rows, self.are_new = [*others, *now], True

    def rows(self) -> list[ProfiledDayRow]:
        """All of them."""
        return self._rows


def _update(material: Material, result: Result, days: _Days, target: str) -> None:
    """Compute the days of a result that are new, or to which lines came since."""
    counts, known = material.lines_by_day(result.by_day), days.lines_of(result)
    material.days = frozenset(day for day, lines in counts.items() if known.get(day) != lines)
    if material.days or not known:
        made = result.make(material)
        dated = made.withColumn(DAY, F.to_date(F.timestamp_millis(result.at)))
        tables.replace_days(dated, target, result.table, is_all=not known)
        days.replace(result, {**known, **counts})
