"""Files of the tables: under names that Spark reads back, and whole or not at all."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker_ctl.codec import encode
from broker_ctl.core.history.row_kinds import SESSION_EVENTS
from broker_ctl.core.history.rows import SessionEventRow
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.directories import escape
from broker_ctl.pipeline.reading.files import TableFiles, open_filesystem
from broker_ctl.pipeline.reading.judging import Judged, judge
from tests.support.pipeline.parquet_tables import parquet
from tests.support.pipeline.segment_files import DAY_MS, DAY_ONE_MS, line

# All that a directory may not have in its name, and what is not ASCII.
STRANGE = "a/b=c:d%e\"f*g?h[i]j{k}l\\m^n#o'p \x01 ü"


def event(cluster: str, line_id: str, at_ms: int = DAY_ONE_MS) -> Judged:
    row = SessionEventRow("begin", "connected", 1)
    judged = judge(encode(line(SESSION_EVENTS, line_id, row, cluster=cluster, at_ms=at_ms)))
    assert judged.fault is None
    return judged


def test_spark_reads_back_what_a_worker_has_written(spark: SparkSession, tmp_path: Path) -> None:
    with TableFiles(str(tmp_path), "one", 3) as files:
        files.add(event(STRANGE, "a-1"))
        files.add(event("007", "a-2", DAY_ONE_MS + DAY_MS))
    rows = tables.whole(spark, str(tmp_path), tables.HISTORY["session_events"]).collect()
    found = {(row["id"], row["cluster"], str(row["dt"]), row["batch"]) for row in rows}
    assert found == {("a-1", STRANGE, "2026-01-01", "one"), ("a-2", "007", "2026-01-02", "one")}


def test_nothing_has_its_name_before_all_of_it_is_written(tmp_path: Path) -> None:
    files = TableFiles(str(tmp_path), "one", 0)
    files.add(event("east", "a-1"))
    files._write(next(iter(files._waiting)))
    (unfinished,) = tmp_path.rglob("*part*")
    assert unfinished.name.startswith(".part-00000-")
    assert unfinished.name.endswith(".parquet.tmp")
    files.__exit__(KeyError, None, None)
    assert list(tmp_path.rglob("*part*")) == []
    assert files.paths == []


def test_two_attempts_at_a_task_do_not_touch_each_other(tmp_path: Path) -> None:
    slow, quick = (TableFiles(str(tmp_path), "one", 0) for _ in range(2))
    with slow:
        slow.add(event("east", "a-1"))
        slow._write(next(iter(slow._waiting)))
        with quick:
            quick.add(event("east", "a-1"))
        (first,) = quick.paths
        before = (tmp_path / first).read_bytes()
        slow.add(event("east", "a-2"))
    (second,) = slow.paths
    assert (tmp_path / first).read_bytes() == before
    counts = [parquet.read_table(tmp_path / path).num_rows for path in (first, second)]
    assert counts == [1, 2]
    assert len([*tmp_path.rglob("*part*")]) == 2


def test_a_location_is_a_path_or_what_pyarrow_knows() -> None:
    for location in ("/a b/c", "file:/a b/c", "file:///a b/c"):
        assert open_filesystem(location)[1] == "/a b/c"
    with pytest.raises(PipelineError, match="nowhere://x: pyarrow cannot write there"):
        open_filesystem("nowhere://x")
    assert escape("east") == "east"
