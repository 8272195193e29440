"""Batches of segments go into the tables of a warehouse, each once, whole or not at all.

A batch is named by what is in it, and counts when its row stands in `tables.BATCHES`, which is
written last. If the process dies before, the stream brings the same files again, and what was
written for them is swept away at the next start; if it dies behind, the batch is known by its name.
The name does not depend on the stream's checkpoint: with a new one all files come again, in other
batches perhaps, and then their lines are known by their ids.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, GroupedData, Row, SparkSession
from pyspark.sql import functions as F

from broker_ctl.core.history.catalog import KINDS
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.failures import told
from broker_ctl.pipeline.folders import delete, matching
from broker_ctl.pipeline.held import held
from broker_ctl.pipeline.parsing import parsed, rows_of
from broker_ctl.pipeline.sources import lines
from broker_ctl.pipeline.tables import BATCH, BATCHES, DAY, HISTORY, LINES, QUARANTINE, BatchRow

_NAME_DIGITS: Final = 16
_PLACE: Final = ("file", "line")
# Of the parsed lines: which they are, without what they hold.
_NARROW: Final = ("id", "kind", *_PLACE, "rows", DAY, "cluster")


class _Total(NamedTuple):
    lines: int
    rows: int


class Sink:
    """The one writer of a warehouse.

    Args:
        spark: the session.
        root: directory of the tables.
        told: hears of each batch when it counts.
    """

    def __init__(self, spark: SparkSession, root: str, told: Callable[[BatchRow], None]) -> None:
        self._spark = spark
        self._root = root
        self._told = told
        self._committed = set(tables.committed(spark, root))
        self.failure: PipelineError | None = None

    def sweep(self) -> None:
        """Remove what was written for batches that do not count."""
        for table in tables.BATCHED:
            pattern = "/".join(f"{name}=*" for name in table.partitions)
            for path in matching(self._spark, tables.path_of(self._root, table), pattern):
                if path.rpartition(f"{BATCH}=")[2] not in self._committed:
                    delete(self._spark, path)

    def take_in(self, listed: DataFrame, _: int) -> None:
        """One batch of the stream of `sources.segments`; for ``foreachBatch``."""
        try:
            with told("a batch of segments"):
                self._take_in(listed.collect())
        except PipelineError as error:
            # Spark tells what is raised here in its own words.
            self.failure = error
            raise

    def _take_in(self, listed: Sequence[Row]) -> None:
        name = name_of(listed)
        if not listed or name in self._committed:
            return
        every = parsed(lines(self._spark, [each["path"] for each in listed]))
        with held(every) as every, held(_repeated(every, self._earlier(every))) as repeated:
            self._write(name, listed, every, repeated)

    def _earlier(self, every: DataFrame) -> DataFrame:
        """Ids of all lines that were taken in before, of the days that these lines are of."""
        days = every.select(DAY).where(F.col(DAY).isNotNull()).distinct().collect()
        known = tables.whole(self._spark, self._root, LINES)
        is_ours = F.col(BATCH).isin(sorted(self._committed))
        is_ours &= F.col(DAY).isin([each[DAY] for each in days])
        return known.where(is_ours).select("id", DAY)

    def _write(
        self, name: str, listed: Sequence[Row], every: DataFrame, repeated: DataFrame
    ) -> None:
        good = every.join(F.broadcast(repeated), [*_PLACE], "left_anti").where("fault IS NULL")
        taken = _totals(good.groupBy("kind"))
        row = _row(name, listed, every, repeated.count(), taken.values())
        for kind in KINDS.values():
            if kind.name in taken:
                rows = rows_of(kind, good)
                # Rows of packed lines are many; the others are few, and need one file.
                rows = rows if kind.is_packed else rows.coalesce(1)
                self._append(name, rows, HISTORY[kind.name])
        self._append(name, good.select(*_NARROW).coalesce(1), LINES)
        if row.faulty_lines or row.unreadable:
            self._append(name, self._faulty(every, listed).coalesce(1), QUARANTINE)
        # From here on the batch counts.
        batch = self._spark.createDataFrame([row], BATCHES.schema)
        tables.append(batch.coalesce(1), self._root, BATCHES)
        self._committed.add(name)
        self._told(row)

    def _append(self, name: str, rows: DataFrame, table: tables.Table) -> None:
        tables.append(rows.withColumn(BATCH, F.lit(name)), self._root, table)

    def _faulty(self, every: DataFrame, listed: Sequence[Row]) -> DataFrame:
        """What goes to quarantine: lines, and files of which there is no line."""
        faulty = every.where("fault IS NOT NULL").select(*_PLACE, "fault", "text")
        files = self._spark.createDataFrame([(each["file"],) for each in listed], "file string")
        unread = files.join(every.select("file").distinct(), "file", "left_anti")
        whole = unread.select(
            "file",
            F.lit(0).alias("line"),
            F.lit("cannot be read").alias("fault"),
            F.lit(None).cast("string").alias("text"),
        )
        return faulty.unionByName(whole)


def name_of(listed: Sequence[Row]) -> str:
    """Of a batch: what it holds, whoever lists it in whatever order, and whenever."""
    told = sorted(f"{each['file']} {each['length']}" for each in listed)
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:_NAME_DIGITS]


def _repeated(every: DataFrame, earlier: DataFrame) -> DataFrame:
    """Places of the lines whose id was taken in before, or stands in an earlier line here."""
    good = every.where("fault IS NULL").select("id", DAY, *_PLACE)
    # The same line of two files: of all of them the first counts, at every attempt.
    first = good.groupBy("id").agg(F.min(F.struct(*_PLACE)).alias("first"))
    again = good.join(first, "id").where(F.struct(*_PLACE) != F.col("first"))
    known = good.join(earlier, ["id", DAY], "left_semi")
    return again.select(*_PLACE).union(known.select(*_PLACE)).distinct()


def _totals(good: GroupedData) -> dict[str, _Total]:
    """Of lines without fault, by kind."""
    found = good.agg(F.count("*"), F.sum("rows")).collect()
    return {kind: _Total(lines, rows) for kind, lines, rows in found}


def _row(
    name: str, listed: Sequence[Row], every: DataFrame, repeated: int, taken: Iterable[_Total]
) -> BatchRow:
    """What a batch comes to.

    Raises:
        PipelineError: its lines do not add up: a fault of ours, and nothing is taken in.
    """
    of_lines = every.agg(F.countDistinct("file"), F.count("*"), F.count("fault")).head()
    files, count, faulty = of_lines if of_lines is not None else (0, 0, 0)
    good = [*taken]
    row = BatchRow(
        batch=name,
        segments=len(listed),
        unreadable=len(listed) - files,
        lines=count,
        faulty_lines=faulty,
        repeated_lines=repeated,
        taken_lines=sum(each.lines for each in good),
        rows=sum(each.rows for each in good),
    )
    if row.lines != row.faulty_lines + row.repeated_lines + row.taken_lines:
        raise PipelineError(f"batch {name}: its lines do not add up: {row}")
    return row
