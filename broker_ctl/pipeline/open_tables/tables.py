"""Tables of Iceberg and Delta Lake in their catalogs, and commits that others overtook."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.filesystem import local_path, path_exists, taking_turns
from broker_ctl.pipeline.location import Location
from broker_ctl.pipeline.session import sentence_of
from broker_ctl.pipeline.settings import Format
from broker_ctl.pipeline.tables import BATCH, BATCHED, BATCHES, SEGMENTS, Table
from broker_ctl.retry import Backoff

# Commits that another writer has overtaken: they are made again, from what that one has left.


_T = TypeVar("_T")
_BACKOFF: Final = Backoff(first_s=0.2, factor=2.0, max_s=5.0)
_MOST_ATTEMPTS: Final = 30
# What Iceberg and Delta say when a commit would not be serializable, or a table was created or
# changed meanwhile.
_CONFLICTS: Final = (
    "org.apache.iceberg.exceptions.ValidationException",
    "org.apache.iceberg.exceptions.CommitFailedException",
    "org.apache.iceberg.exceptions.AlreadyExistsException",
    "DELTA_CONCURRENT_",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "DELTA_TABLE_ALREADY_EXISTS",
    "TABLE_OR_VIEW_ALREADY_EXISTS",
    "FIELD_ALREADY_EXISTS",
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "MetadataChangedException",
    "ProtocolChangedException",
)


def retry_conflicts(what: str, step: Callable[[], _T]) -> _T:
    """Make a step that reads a table and commits to it, again where another commit came first.

    Raises:
        PipelineError: others came first every time.
    """
    rng = random.Random()  # noqa: S311  pauses of two writers must differ
    failures = 0
    while True:
        try:
            return step()
        except (PySparkException, Py4JError) as error:
            if not is_conflict(error):
                raise
            failures += 1
            if failures == _MOST_ATTEMPTS:
                raise PipelineError(
                    f"{what}: {failures} commits in a row were overtaken by other writers; the last"
                    f" one: {sentence_of(error)}"
                ) from error
            time.sleep(_BACKOFF.delay_s(failures, rng))


def is_conflict(error: Exception) -> bool:
    """Whether another writer came first; `location.settings_for` has errors name their causes."""
    text = str(error)
    return any(mark in text for mark in _CONFLICTS)


# Names, columns and rows of the open tables of a history.
#
# A table is created, and gets the columns of a newer release, when it is first written to.


# Everything that a history consists of.
TABLES: Final = (*BATCHED, SEGMENTS, BATCHES)
_PROPERTIES: Final = {
    # A merge adds files; it does not rewrite those that are there.
    Format.ICEBERG: {
        "format-version": "2",
        "write.merge.mode": "merge-on-read",
        "write.delete.mode": "merge-on-read",
        "write.merge.isolation-level": "serializable",
        "write.parquet.compression-codec": "zstd",
    },
    Format.DELTA: {"delta.isolationLevel": "Serializable"},
}


class OpenTables:
    """The tables of one history.

    Args:
        spark: the session.
        location: of an open format.
    """

    def __init__(self, spark: SparkSession, location: Location) -> None:
        self.spark = spark
        self._location = location

    @property
    def format(self) -> Format:
        """Of all its tables."""
        return self._location.format

    @property
    def root(self) -> str:
        """A directory, or a namespace of a catalog."""
        return self._location.root

    def name_of(self, table: Table) -> str:
        """As SQL has it."""
        if self.format is Format.DELTA:
            return f"delta.`{self._place(table)}`"
        return f"{self.root}.{table.name}"

    def _place(self, table: Table) -> str:
        """Directory of a table of Delta, as a quoted name has it."""
        return f"{self.root}/{table.name}".replace("`", "``")

    def exists(self, table: Table) -> bool:
        """Whether there is such a table."""
        if self.format is Format.DELTA:
            return path_exists(self.spark, f"{self.root}/{table.name}/_delta_log")
        return self.spark.catalog.tableExists(self.name_of(table))

    def read(self, table: Table) -> DataFrame:
        """The rows of a table; none where there is no such table."""
        if not self.exists(table):
            return self.spark.createDataFrame([], table.schema)
        frame = self.spark.table(self.name_of(table))
        columns = []
        for field in table.schema.fields:
            there = F.col(field.name) if field.name in frame.columns else F.lit(None)
            value = table.defaults.get(field.name)
            full = there if value is None else F.coalesce(there, F.lit(value))
            columns.append(full.cast(field.dataType).alias(field.name))
        return frame.select(*columns)

    def commit(self, table: Table, step: Callable[[], _T]) -> _T:
        """Make a step that reads a table and commits to it, until no other commit came first.

        Raises:
            PipelineError: others came first every time.
        """

        def in_turn() -> _T:
            with taking_turns(self._shared_disk()):
                return step()

        return retry_conflicts(f"table {table.name}", in_turn)

    def _shared_disk(self) -> Path | None:
        """A directory of this machine where two processes could write the same commit of Delta."""
        return local_path(self.spark, self.root) if self.format is Format.DELTA else None

    def ensure(self, table: Table) -> None:
        """Create a table, or add the columns that it has not got yet."""
        self.commit(table, lambda: self._ensure(table))

    def _ensure(self, table: Table) -> None:
        name = self.name_of(table)
        if not self.exists(table):
            self._create(table)
            return
        there = set(self.spark.table(name).columns)
        missing = [field for field in columns_of(table).fields if field.name not in there]
        if missing:
            self.spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({_describe(missing)})")

    def _create(self, table: Table) -> None:
        if self.format is Format.ICEBERG:
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.root}")
        partitions = [name for name in table.partitions if name != BATCH]
        parts = f"PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
        properties = ", ".join(f"'{k}' = '{v}'" for k, v in _PROPERTIES[self.format].items())
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name_of(table)}"
            f" ({_describe(columns_of(table).fields)}) USING {self.format} {parts}"
            f" TBLPROPERTIES ({properties})"
        )


def columns_of(table: Table) -> StructType:
    """The columns of an open table: those of its rows, and the batch that brought them."""
    if BATCH in table.schema.names:
        return table.schema
    return StructType([*table.schema.fields, StructField(BATCH, StringType())])


def _describe(fields: list[StructField]) -> str:
    """As SQL declares columns; all may be null, since a column may be younger than a row."""
    return ", ".join(
        f"`{field.name}` {field.dataType.simpleString()} COMMENT '{_comment(field)}'"
        for field in fields
    )


def _comment(field: StructField) -> str:
    return str(field.metadata.get("comment", "")).replace("\\", "").replace("'", "\\'")
