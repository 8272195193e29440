"""Where a report takes its rows from: profiles, and with them tables and a back-test.

Spark sums up; what is collected is bounded by what can be shown.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.filesystem import path_exists, resolve_location
from broker_ctl.pipeline.profile import RESULTS
from broker_ctl.pipeline.report.values import ChartSpan, Missing, width_of
from broker_ctl.pipeline.tables import CLUSTER, BatchRow, Table
from broker_ctl.pipeline.transforms.heat import LOAD_SKEW
from broker_ctl.pipeline.transforms.hours import BUNDLE_HOURS
from broker_ctl.pipeline.warehouse import open_warehouse

_HOUR_MS: Final = 3_600_000
# Of a chart over time.
MOST_PLACES: Final = 240
_MOST_NAMES: Final = 20


@dataclass(frozen=True, slots=True)
class Places:
    """Directories; None: not given.

    Attributes:
        profiles: what ``profile`` writes.
        tables: what ``ingest`` writes.
        backtest: what ``backtest`` writes.
    """

    profiles: str
    tables: str | None = None
    backtest: str | None = None


class ReportSource:
    """One cluster of it.

    Attributes:
        cluster: its name.

    Args:
        spark: the session.
        places: where the rows are.
        cluster: whose.
    """

    def __init__(self, spark: SparkSession, places: Places, cluster: str) -> None:
        self._spark = spark
        self._places = places
        self.cluster = cluster

    def result(self, table: Table) -> DataFrame | Missing:
        """The cluster's rows of a profile."""
        root = resolve_location(self._places.profiles)
        if not path_exists(self._spark, tables.path_of(root, table)):
            command = f"broker-ctl pipeline profile TABLES --to {self._places.profiles}"
            return Missing(f"There is no profile {table.name}.", f"{command} --only {table.name}")
        return tables.whole(self._spark, root, table).where(F.col(CLUSTER) == self.cluster)

    def history(self, table: Table) -> DataFrame | Missing:
        """The cluster's rows of a table of the history, or all rows of one without clusters."""
        given = self._places.tables
        history = None if given is None else open_warehouse(self._spark, given)
        if history is None or not history.batches():
            what = f"This needs the table {table.name}; "
            what += "no tables were given." if given is None else f"{given} holds no history."
            return Missing(what, f"broker-ctl pipeline report {self._places.profiles} --tables DIR")
        frame = history.read(table)
        return frame.where(F.col(CLUSTER) == self.cluster) if CLUSTER in frame.columns else frame

    def batches(self) -> list[BatchRow]:
        """What `history` was taken in by."""
        return open_warehouse(self._spark, self._places.tables or "").batches()

    def backtest(self, table: Table) -> DataFrame | Missing:
        """All rows of a back-test."""
        given = self._places.backtest
        if given is None or not path_exists(
            self._spark, tables.path_of(resolve_location(given), table)
        ):
            what = "No back-test was given." if given is None else f"{given} has no {table.name}."
            return Missing(
                f"{what} One says what other settings would have made of the same traffic.",
                f"broker-ctl pipeline report {self._places.profiles} --backtest DIR",
            )
        return tables.whole(self._spark, resolve_location(given), table)


def cluster_of(spark: SparkSession, places: Places, wanted: str | None) -> str:
    """The cluster that is meant.

    Raises:
        PipelineError: there is no profile, no such cluster, or several of them and none is named.
    """
    root = resolve_location(places.profiles)
    # The smallest of those that all clusters stand in come first.
    known = (LOAD_SKEW, BUNDLE_HOURS, *(each.table for each in RESULTS.values()))
    there = [table for table in known if path_exists(spark, tables.path_of(root, table))]
    if not there:
        raise PipelineError(
            f"{places.profiles}: no profiles in it: broker-ctl pipeline profile makes them"
        )
    found = tables.whole(spark, root, there[0]).select(CLUSTER).distinct().orderBy(CLUSTER)
    names = [str(row[CLUSTER]) for row in found.limit(_MOST_NAMES + 1).collect()]
    if not names:
        raise PipelineError(f"{places.profiles}: no cluster in its profiles: they have no rows")
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is None or not found.where(F.col(CLUSTER) == wanted).head(1):
        more = ", ..." if len(names) > _MOST_NAMES else ""
        what = "several clusters" if wanted is None else f"no cluster {wanted!r}"
        listed = ", ".join(names[:_MOST_NAMES])
        raise PipelineError(f"{places.profiles}: {what}: --cluster says which of: {listed}{more}")
    return wanted


def place_width_ms(span: ChartSpan, samples: int) -> int:
    """How long a place along the time axis is, so that there are not too many.

    Args:
        span: of the axis.
        samples: of each subject in it. They are not quite regular, and a place without any would
            look as if there had been nothing to see.
    """
    return width_of(span.to_ms - span.from_ms, max(1, min(MOST_PLACES, samples * 2 // 3)))


def hourly_width_ms(span: ChartSpan) -> int:
    """Likewise, of rows that are of an hour each."""
    return max(_HOUR_MS, width_of(span.to_ms - span.from_ms, MOST_PLACES))


def place(at_ms: str, width_ms: int) -> Column:
    """The first moment of the place that a moment belongs to."""
    return (F.col(at_ms) - F.col(at_ms) % width_ms).alias("place_ms")


def by_place(
    rows: Iterable[Sequence[Any]], xs: Sequence[int]
) -> Iterator[tuple[float | None, ...]]:
    """Columns of rows whose first value is their place, in the order of ``xs``.

    Of a place that has no row there is None: then nothing was seen.
    """
    known = {row[0]: tuple(row[1:]) for row in rows}
    width = len(next(iter(known.values()), ()))
    return zip(*(known.get(x, (None,) * width) for x in xs), strict=True)


def places_of(span: ChartSpan, width_ms: int) -> tuple[int, ...]:
    """All of them, whether something happened there or not."""
    return tuple(range(span.from_ms - span.from_ms % width_ms, span.to_ms + 1, width_ms))
