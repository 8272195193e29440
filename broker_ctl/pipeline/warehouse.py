"""The tables of a history as jobs read them, whatever their format."""

from collections.abc import Iterable
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.location import Location
from broker_ctl.pipeline.open_tables.tables import OpenTables
from broker_ctl.pipeline.reading.hourly import PARTS, SUMS, HourTask, sum_hours, sum_parts
from broker_ctl.pipeline.settings import Format
from broker_ctl.pipeline.tables import BATCH, BATCHES, DAY, HISTORY, BatchRow, Table, part_of


class Warehouse(Protocol):
    """The tables of one history."""

    def batches(self) -> list[BatchRow]:
        """Batches that count; none: no history was taken in."""
        ...

    def read(self, table: Table) -> DataFrame:
        """The rows of a table; none where there is no such table."""
        ...

    def bundle_hour_sums(self, days: Iterable[str]) -> DataFrame:
        """`hourly.SUMS` of the bundle loads of these days; one row of each bundle and hour."""
        ...


def open_warehouse(spark: SparkSession, text: str) -> Warehouse:
    """The tables at a location, see `location`."""
    location = Location.of(text)
    if location.format is Format.PARQUET:
        return ParquetWarehouse(spark, location.root)
    return OpenWarehouse(OpenTables(spark, location))


def open_filled(spark: SparkSession, text: str) -> Warehouse:
    """As `open_warehouse`.

    Raises:
        PipelineError: nothing was taken in.
    """
    found = open_warehouse(spark, text)
    if not found.batches():
        raise PipelineError(f"{text}: no history was taken in: broker-ctl pipeline ingest does it")
    return found


class ParquetWarehouse:
    """Directories of Parquet files; the batches that count are those that did at the beginning.

    Args:
        spark: the session.
        root: of the tables.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._root = root
        self._batches = tables.select_counted(tables.read_batch_rows(spark, root))

    def batches(self) -> list[BatchRow]:
        """See `Warehouse`."""
        return self._batches

    def read(self, table: Table) -> DataFrame:
        """See `Warehouse`."""
        return tables.read_batches(self._spark, self._root, table, self._batches)

    def bundle_hour_sums(self, days: Iterable[str]) -> DataFrame:
        """See `Warehouse`; Arrow adds them up from the files."""
        wanted = frozenset(days)
        files = tables.files_of(self._spark, self._root, HISTORY["bundle_loads"], self._batches)
        found = [f"{self._root}/{each}" for each in files if part_of(each, DAY) in wanted]
        if not found:
            return self._spark.createDataFrame([], SUMS)
        numbers = self._spark.range(0, len(found), numPartitions=len(found))
        return sum_parts(numbers.mapInArrow(HourTask(found), PARTS))


class OpenWarehouse:
    """Tables of an open format, each as it is when it is read.

    Args:
        history: its tables.
    """

    def __init__(self, history: OpenTables) -> None:
        self._tables = history

    def batches(self) -> list[BatchRow]:
        """See `Warehouse`."""
        rows = self._tables.read(BATCHES).orderBy(BATCH).collect()
        return [BatchRow(**{name: row[name] for name in BatchRow._fields}) for row in rows]

    def read(self, table: Table) -> DataFrame:
        """See `Warehouse`."""
        return self._tables.read(table)

    def bundle_hour_sums(self, days: Iterable[str]) -> DataFrame:
        """See `Warehouse`."""
        loads = self._tables.read(HISTORY["bundle_loads"])
        return sum_hours(loads.where(F.col(DAY).cast("string").isin(sorted(days))))
