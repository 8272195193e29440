"""Segments that are small on disk and large in memory: kept apart, and the others ingested."""

import gzip
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker_ctl.core.history.row_kinds import SESSION_EVENTS
from broker_ctl.core.history.rows import SessionEventRow
from broker_ctl.pipeline.checks import check_all
from broker_ctl.pipeline.ingest import IngestRules, ingest
from broker_ctl.pipeline.reading.judging import MAX_LINE_BYTES
from broker_ctl.pipeline.settings import PipelineSettings
from broker_ctl.pipeline.tables import QUARANTINE, BatchRow
from broker_ctl.pipeline.warehouse import open_warehouse
from tests.support.pipeline.segment_files import line, write_segment

MIB = 1 << 20
# More than the memory of Spark in these tests, and one line.
BOMB_MIB = 2600
EVENT = line(SESSION_EVENTS, "aa-1", SessionEventRow("begin", "connected", 1))


def write_bomb(path: Path, mebibytes: int) -> None:
    """One line of spaces, packed a thousandfold; gzip files may be put behind one another."""
    path.write_bytes(gzip.compress(b" " * MIB) * mebibytes)


def ingested(spark: SparkSession, history: Path, root: Path, rules: IngestRules) -> list[BatchRow]:
    batches: list[BatchRow] = []
    ingest(spark, str(history), str(root), rules, batches.append)
    return batches


def quarantined(spark: SparkSession, root: Path) -> dict[tuple[str, int], tuple[str, str | None]]:
    rows = open_warehouse(spark, str(root)).read(QUARANTINE).collect()
    return {(Path(row["file"]).name, row["line"]): (row["fault"], row["text"]) for row in rows}


@pytest.mark.slow
def test_a_segment_that_unpacks_to_gibibytes_is_quarantined_and_the_rest_ingested(
    spark: SparkSession, tmp_path: Path
) -> None:
    history, root = tmp_path / "history", tmp_path / "tables"
    history.mkdir()
    write_bomb(history / "bomb.ndjson.gz", BOMB_MIB)
    assert (history / "bomb.ndjson.gz").stat().st_size < 3 * MIB
    write_segment(history / "good.ndjson.gz", [EVENT])
    (batch,) = ingested(spark, history, root, IngestRules(batch_bytes=1 << 30))
    assert (batch.segments, batch.unreadable, batch.taken_lines) == (2, 1, 1)
    fault = f"larger than {PipelineSettings().segment_bytes} bytes after decompression"
    assert quarantined(spark, root) == {("bomb.ndjson.gz", 0): (fault, None)}
    check_all(spark, str(root))
    # The checkpoint has it behind it: the next run does not meet it again.
    assert ingested(spark, history, root, IngestRules(batch_bytes=1 << 30)) == []


@pytest.mark.slow
def test_a_batch_of_nothing_but_large_segments_is_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    history, root = tmp_path / "history", tmp_path / "tables"
    history.mkdir()
    write_bomb(history / "packed.ndjson.gz", 2)
    (history / "plain.ndjson").write_bytes(b" " * 2 * MIB)
    rules = IngestRules(batch_bytes=1 << 30, segment_bytes=MIB)
    (batch,) = ingested(spark, history, root, rules)
    assert (batch.segments, batch.unreadable, batch.lines) == (2, 2, 0)
    assert set(quarantined(spark, root)) == {("packed.ndjson.gz", 0), ("plain.ndjson", 0)}
    check_all(spark, str(root))


def test_a_line_that_is_too_long_is_quarantined_without_its_text(
    spark: SparkSession, tmp_path: Path
) -> None:
    history, root = tmp_path / "history", tmp_path / "tables"
    history.mkdir()
    write_segment(history / "long.ndjson.gz", ["x" * (MAX_LINE_BYTES + 1), EVENT])
    (batch,) = ingested(spark, history, root, IngestRules(batch_bytes=1 << 30))
    assert (batch.lines, batch.faulty_lines, batch.taken_lines) == (2, 1, 1)
    fault = f"longer than {MAX_LINE_BYTES} bytes"
    assert quarantined(spark, root) == {("long.ndjson.gz", 1): (fault, None)}
    check_all(spark, str(root))
