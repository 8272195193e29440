"""Segments that a daemon deletes while they are taken in: nothing of them is left half written."""

from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.sql import DataFrame, SparkSession

from broker_ctl.core.history.row_kinds import OWNERSHIP_CHANGES, SESSION_EVENTS
from broker_ctl.core.history.rows import OwnershipChangeRow, SessionEventRow
from broker_ctl.pipeline.checks import check_all
from broker_ctl.pipeline.reading.task import SegmentTask
from broker_ctl.pipeline.settings import PipelineSettings
from broker_ctl.pipeline.sinks import Sink
from broker_ctl.pipeline.tables import BatchRow, name_batch
from broker_ctl.pipeline.warehouse import open_warehouse
from tests.support.pipeline.segment_files import line, write_segment

EVENT = line(SESSION_EVENTS, "aa-1", SessionEventRow("begin", "connected", 1))
CHANGED = line(OWNERSHIP_CHANGES, "bb-1", OwnershipChangeRow("t/n/x", True, "transfer", 7, 1))  # noqa: FBT003


def written(spark: SparkSession, history: Path) -> DataFrame:
    """Two segments, of which the second repeats a line of the first, as the stream lists them."""
    history.mkdir()
    write_segment(history / "one.ndjson", [EVENT])
    write_segment(history / "two.ndjson", [CHANGED, EVENT])
    files = spark.read.format("binaryFile").option("ignoreMissingFiles", "true").load(str(history))
    return files.selectExpr("_metadata.file_path AS file", "path", "length")


@pytest.mark.slow
@pytest.mark.parametrize("last", [1, 2])
def test_a_segment_that_goes_before_it_is_read_leaves_no_row(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    history, root, reads = tmp_path / "history", tmp_path / "tables", 0
    listed = written(spark, history)
    rows = listed.collect()
    task = SegmentTask(
        str(root),
        name_batch((row["file"], row["length"]) for row in rows),
        PipelineSettings().segment_bytes,
    )
    columns = [[row[name] for row in rows] for name in ("file", "path")]
    given = pa.table([*columns, pa.nulls(len(rows))], ["file", "path", "lines"])
    # The task is done with its files; Spark has not heard of it, and runs it again.
    # A batch for each segment, and the files that the task has written.
    assert len(list(task(iter(given.to_batches())))) == 3
    assert len(list((root / "ownership_changes").rglob("*.parquet"))) == 1
    load = Sink._load

    def deleting(*arguments: object) -> DataFrame:
        nonlocal reads
        reads += 1
        # Because of the repeated line, the batch is read twice.
        if reads == last:
            (history / "two.ndjson").unlink()
        return load(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Sink, "_load", deleting)
    assert taken_in(spark, root, listed) == [(2, 1, 1)]
    assert reads == last + 1
    found = check_all(spark, str(root))
    assert (found["session_events"], found["ownership_changes"], found["quarantine"]) == (1, 0, 1)


def taken_in(spark: SparkSession, root: Path, listed: DataFrame) -> list[tuple[int, int, int]]:
    """Segments, unreadable ones, and rows of each batch."""
    batches: list[BatchRow] = []
    Sink(spark, str(root), batches.append).take_in(listed, 0)
    kept = open_warehouse(spark, str(root)).batches()
    assert [each._replace(files=tuple(each.files or ())) for each in kept] == batches
    return [(batch.segments, batch.unreadable, batch.rows) for batch in batches]
