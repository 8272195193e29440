"""Segments become tables: each line once and whole, and what is wrong is kept apart."""

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_ctl.core.history.row_kinds import BUNDLE_LOADS, OWNERSHIP_CHANGES, SESSION_EVENTS
from broker_ctl.core.history.rows import BundleLoadRow, OwnershipChangeRow, SessionEventRow
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.checks import check, check_all
from broker_ctl.pipeline.ingest import IngestRules, ingest
from broker_ctl.pipeline.reading.judging import AHEAD
from broker_ctl.pipeline.reading.task import SegmentTask
from broker_ctl.pipeline.readmission import Readmitted, readmit
from broker_ctl.pipeline.sinks import Sink
from broker_ctl.pipeline.tables import BatchRow, name_batch
from broker_ctl.pipeline.warehouse import open_warehouse
from tests.support.pipeline.parquet_tables import arrow, parquet
from tests.support.pipeline.segment_files import DAY_MS, DAY_ONE_MS, line, write_segment

ALL_AT_ONCE = IngestRules(batch_bytes=1 << 30)
BEGUN = SessionEventRow("begin", "connected", 1)


def loaded(bundle: str, rate: float | None) -> BundleLoadRow:
    count = None if rate is None else 2
    return BundleLoadRow(
        bundle, "broker-1", *(rate,) * 4, *(count,) * 4, usage_ratio=0.5, short_bytes=1.0,
        long_msg_rate=1.0,
    )  # fmt: skip


LOADS = line(BUNDLE_LOADS, "aa-1", loaded("t/n/x", 10.0), loaded("t/n/y", None))
CHANGED = line(OWNERSHIP_CHANGES, "bb-1", OwnershipChangeRow("t/n/x", True, "transfer", 7, 1))  # noqa: FBT003
EVENT = line(SESSION_EVENTS, "bb-2", BEGUN, at_ms=DAY_ONE_MS + DAY_MS)
# Lines that cannot be read, and the fault that is recorded for each.
FAULTY = {
    "": "",
    '{"kind":"session_events"': "not a JSON object",
    '{"a":1}{"b":2}': "not a JSON object",
    "[1]": "not a JSON object",
    '{"kind":"session_events","format":1}': "id is missing, or is not text",
}
FAULTY_LINES: list[tuple[dict[str, Any], str]] = [
    ({**EVENT, "kind": "nonsense"}, "no kind of history"),
    ({**EVENT, "event": None}, "a column is missing"),
    ({**LOADS, "topics": [1]}, "its lists are not equally long"),
]


def taken_in(
    spark: SparkSession, history: Path, root: Path, rules: IngestRules = ALL_AT_ONCE
) -> list[BatchRow]:
    batches: list[BatchRow] = []
    ingest(spark, str(history), str(root), rules, batches.append)
    return batches


def read(spark: SparkSession, root: Path, name: str) -> list[Any]:
    table = {each.name: each for each in tables.BATCHED}[name]
    return open_warehouse(spark, str(root)).read(table).orderBy(*table.key).collect()


def test_a_history_is_taken_in_line_by_line(spark: SparkSession, tmp_path: Path) -> None:
    history, root = tmp_path / "history", tmp_path / "a b"
    (history / "broker-2").mkdir(parents=True)
    write_segment(history / "one.ndjson.gz", [LOADS, *FAULTY, EVENT])
    faults = [bad for bad, _ in FAULTY_LINES]
    # A copy of it all, in a directory of its own, and not compressed; an open segment; no gzip.
    write_segment(history / "broker-2" / "two [2].ndjson", [EVENT, LOADS, CHANGED, *faults])
    write_segment(history / ".three.open", [line(SESSION_EVENTS, "zz-1", BEGUN)])
    (history / "torn.ndjson.gz").write_bytes((history / "one.ndjson.gz").read_bytes()[:-9])

    (batch,) = taken_in(spark, history, root)
    assert (batch.segments, batch.unreadable, batch.rows) == (3, 1, 4)
    # An empty line in the middle is none.
    assert (batch.lines, batch.faulty_lines) == (6 + 6, 4 + 3)
    assert (batch.repeated_lines, batch.taken_lines) == (2, 3)

    x, y = read(spark, root, "bundle_loads")
    assert (x["id"], x["bundle"], x["bytes_in"], x["topics"]) == ("aa-1/0", "t/n/x", 10.0, 2)
    assert (y["id"], y["owner"], y["bytes_in"], y["usage_ratio"]) == (
        "aa-1/1",
        "broker-1",
        None,
        0.5,
    )
    assert (x["dt"], x["cluster"], x["cycle"]) == (date(2026, 1, 1), "east", 1)
    (change,) = read(spark, root, "ownership_changes")
    assert (change["is_acquired"], change["cause"], change["token"]) == (True, "transfer", 7)
    (event,) = read(spark, root, "session_events")
    assert (event["dt"], event["writer"]) == (date(2026, 1, 2), "broker-1")

    quarantined = {
        (Path(row["file"]).name, row["line"]): row for row in read(spark, root, "quarantine")
    }
    expected = {("torn.ndjson.gz", 0): "cannot be read"}
    for number, (text, fault) in enumerate(FAULTY.items(), start=2):
        if text:
            expected["one.ndjson.gz", number] = fault
            assert quarantined["one.ndjson.gz", number]["text"] == text
    for number, (_, fault) in enumerate(FAULTY_LINES, start=4):
        expected["two%20%5B2%5D.ndjson", number] = fault
    assert {place: row["fault"] for place, row in quarantined.items()} == expected
    assert check_all(spark, str(root))["bundle_loads"] == 2

    # Late rows, and lines that were taken in before, in a file of another name.
    late = line(SESSION_EVENTS, "bb-3", BEGUN, at_ms=DAY_ONE_MS - 9 * DAY_MS)
    write_segment(history / "four.ndjson.gz", [late, EVENT, LOADS])
    (second,) = taken_in(spark, history, root)
    assert (second.segments, second.repeated_lines, second.rows) == (1, 2, 1)
    assert [row["dt"] for row in read(spark, root, "session_events")] == [
        date(2026, 1, 2),
        date(2025, 12, 23),
    ]
    assert len(read(spark, root, "bundle_loads")) == 2
    assert taken_in(spark, history, root) == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_attempt_that_lives_on_adds_nothing_to_its_batch(
    spark: SparkSession, tmp_path: Path, when: str
) -> None:
    history, root = tmp_path / "history", tmp_path / "tables"
    history.mkdir()
    path = write_segment(history / "one.ndjson", [LOADS, EVENT])
    uri = f"file://{path}"
    task = SegmentTask(str(root), name_batch([(uri, path.stat().st_size)]), 1 << 20)
    given = {"file": [uri], "path": [f"file:{path}"], "lines": arrow.nulls(1)}
    # Its executor was thought lost: nobody waits for its files, and it writes them nevertheless,
    # before its batch counts or after that.
    lost = task(iter([arrow.RecordBatch.from_pydict(given)]))
    next(lost)
    if when == "before":
        assert [*lost]
    (batch,) = taken_in(spark, history, root)
    assert [*lost] == [] or when == "after"
    assert (batch.rows, len(batch.files or ())) == (3, 4)
    assert check_all(spark, str(root))["bundle_loads"] == 2
    # The next ingest removes what is of no batch.
    write_segment(history / "two.ndjson", [CHANGED])
    taken_in(spark, history, root)
    assert check_all(spark, str(root))["bundle_loads"] == 2
    assert len([*(root / "bundle_loads").rglob("*.parquet")]) == 1


LONG = "x" * 300
STRANGE_CLUSTERS = {
    LONG: "cluster is too long for the name of a directory of 255 bytes",
    "/" * 100: "cluster is too long for the name of a directory of 255 bytes",
    "ü" * 130: "cluster is too long for the name of a directory of 255 bytes",
    "a\0b": "cluster has a NUL, which no directory has in its name",
}


def test_no_line_keeps_the_others_out(spark: SparkSession, tmp_path: Path) -> None:
    history, root = tmp_path / "history", tmp_path / "tables"
    history.mkdir()
    strange = [{**EVENT, "id": f"s{n}", "cluster": c} for n, c in enumerate(STRANGE_CLUSTERS)]
    # The longest name that there may be, and the latest time.
    fits = {**EVENT, "id": "ok", "cluster": "x" * 247}
    written_ms = DAY_ONE_MS + 3 * DAY_MS
    late = {**EVENT, "id": "late", "at_ms": written_ms + DAY_MS}
    ahead = {**EVENT, "id": "ahead", "at_ms": written_ms + DAY_MS + 1}
    path = write_segment(history / "one.ndjson", [*strange, fits, late, ahead])
    os.utime(path, ns=(written_ms * 1_000_000,) * 2)
    (batch,) = taken_in(spark, history, root)
    assert (batch.taken_lines, batch.faulty_lines) == (2, 5)
    faults = [row["fault"] for row in read(spark, root, "quarantine")]
    assert faults == [*STRANGE_CLUSTERS.values(), AHEAD]
    assert {row["id"] for row in read(spark, root, "session_events")} == {"ok", "late"}


def test_what_was_in_quarantine_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    history, root = tmp_path / "history", tmp_path / "tables"
    history.mkdir()
    newer = {**EVENT, "id": "new", "format": 2}
    lines: list[Any] = [
        EVENT,
        newer,
        {**CHANGED, "id": "odd", "cause": None},
        {**EVENT, "format": 2},
    ]
    write_segment(history / "one.ndjson", lines)
    write_segment(history / "large.ndjson", [LOADS, "x" * 2000])
    rules = IngestRules(batch_bytes=1, segment_bytes=1500)
    first, second = taken_in(spark, history, root, rules)
    assert (first.faulty_lines + second.faulty_lines, first.unreadable + second.unreadable) == (
        3,
        1,
    )
    # Nothing has changed: it stays, and is there once.
    assert readmit(spark, str(root), 1500) == Readmitted(4, 0, 0, 0, 4)
    check_all(spark, str(root))

    # What an older release could not read, and this one can; and a higher limit.
    for path in root.glob("quarantine/*/*.parquet"):
        table = parquet.read_table(path, partitioning=None)
        texts = [
            text and text.replace('"format": 2', '"format": 1')
            for text in table["text"].to_pylist()
        ]
        place = table.schema.get_field_index("text")
        parquet.write_table(table.set_column(place, "text", arrow.array(texts)), path)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    # One of the two newer lines is a copy; of the large segment a line is of no use.
    assert readmit(spark, str(root), 1 << 20) == Readmitted(4, 2, 1, 3, 2)
    assert {row["id"] for row in read(spark, root, "session_events")} == {"bb-2", "new"}
    assert len(read(spark, root, "bundle_loads")) == 2
    left = {(Path(row["file"]).name, row["line"]) for row in read(spark, root, "quarantine")}
    assert left == {("one.ndjson", 3), ("large.ndjson", 2)}
    counts = check_all(spark, str(root))
    rows = open_warehouse(spark, str(root)).batches()
    assert sum(row.segments for row in rows) == 2
    assert sum(row.rows for row in rows) == counts["bundle_loads"] + counts["session_events"] == 4
    assert taken_in(spark, history, root, rules) == []
    assert readmit(spark, str(root), 1 << 20) == Readmitted(2, 0, 0, 0, 2)


class Killed(Exception):
    """Stands for the end of the process: no later step is done."""


@pytest.mark.slow
def test_an_ingest_that_dies_at_any_write_loses_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(tmp_path / "one.ndjson", [EVENT, CHANGED])
    content = (tmp_path / "one.ndjson").read_bytes()
    listed = spark.createDataFrame(
        [(f"file:{tmp_path}/one.ndjson", f"file:{tmp_path}/one.ndjson", len(content))],
        "file string, path string, length long",
    )
    append = tables.append
    root = tmp_path / "tables"

    def attempt(until: int) -> None:
        """All steps before the write of this number, and then the write without its end."""
        writes = 0

        def cut(frame: DataFrame, where: str, table: tables.Table) -> None:
            nonlocal writes
            writes += 1
            if writes <= until:
                append(frame, where, table)
            if writes >= until:
                raise Killed

        monkeypatch.setattr(tables, "append", cut)
        with pytest.raises(Killed):
            started(lambda _: None).take_in(listed, 0)
        monkeypatch.setattr(tables, "append", append)

    def started(on_batch: Callable[[BatchRow], None]) -> Sink:
        sink = Sink(spark, str(root), on_batch)
        sink.sweep()
        return sink

    # The rows are written before the lines; the second makes it count.
    for until in (0, 1):
        attempt(until)
        assert open_warehouse(spark, str(root)).batches() == []
        assert read(spark, root, "session_events") == []
    attempt(2)
    assert len(open_warehouse(spark, str(root)).batches()) == 1

    # Spark's checkpoint knows of none of this, and brings the files again.
    batches: list[BatchRow] = []
    started(batches.append).take_in(listed, 0)
    assert batches == []
    for name in ("session_events", "ownership_changes"):
        (row,) = read(spark, root, name)
        everything = spark.read.parquet(str(root / name))
        assert [each["id"] for each in everything.collect()] == [row["id"]]


def test_a_table_that_breaks_its_schema_fails_the_check(spark: SparkSession) -> None:
    rows = [("a", 1, 0, 1, 0, 0, 1, 1, None, None)] * 2
    twice = spark.createDataFrame(rows, tables.BATCHES.schema)
    with pytest.raises(PipelineError, match="2 rows have batch=a"):
        check(twice, tables.BATCHES)
    nameless = twice.limit(1).withColumn("batch", F.lit(None).cast("string"))
    with pytest.raises(
        PipelineError, match=r"nulls in columns that must have none: \{'batch': 1\}"
    ):
        check(nameless, tables.BATCHES)
    assert check(twice.limit(1), tables.BATCHES) == 1
    with pytest.raises(PipelineError, match="table batches: no column batch; there are: segments"):
        tables.conform(twice.drop("batch"), tables.BATCHES)


def test_a_history_without_its_directory_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no such directory"):
        taken_in(spark, tmp_path / "nowhere", tmp_path / "tables")
