"""Batches are merged and old days deleted, and no row is lost or repeated, wherever it dies."""

import json
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from broker_ctl.cli.main import main
from broker_ctl.clock import SystemClock
from broker_ctl.core.history.row_kinds import BUNDLE_LOADS, SESSION_EVENTS
from broker_ctl.core.history.rows import BundleLoadRow, SessionEventRow
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import merging, tables
from broker_ctl.pipeline.checks import check_all
from broker_ctl.pipeline.ingest import IngestRules, ingest
from broker_ctl.pipeline.merging import ROWS_A_BATCH, Merged, compact, expire, group
from broker_ctl.pipeline.tables import BatchRow
from broker_ctl.pipeline.warehouse import open_warehouse
from tests.support.pipeline.segment_files import DAY_MS, DAY_ONE_MS, line, write_segment

# A segment is a batch.
ONE_BY_ONE = IngestRules(batch_bytes=1)
DAY_TWO = date(2026, 1, 2)


class Killed(Exception):
    """Stands for the end of the process: no later step is done."""


def batch(name: str, rows: int) -> BatchRow:
    return BatchRow(name, 1, 0, rows, 0, 0, rows, rows)


def test_small_batches_become_one_of_a_sensible_size() -> None:
    small = [batch(f"{number:02}", ROWS_A_BATCH // 4) for number in range(9)]
    large = [batch("large", ROWS_A_BATCH)]
    names = [[each.batch for each in some] for some in group([*large, *small])]
    # One is left over.
    assert names == [["00", "01", "02", "03"], ["04", "05", "06", "07"]]
    assert group(large) == group(small[:1]) == group([]) == []


def loads(line_id: str, at_ms: int) -> dict[str, Any]:
    row = BundleLoadRow(
        "t/n/x", "broker-1", *(1.0,) * 4, *(2,) * 4, usage_ratio=0.5, short_bytes=1.0,
        long_msg_rate=1.0,
    )  # fmt: skip
    return line(BUNDLE_LOADS, line_id, row, row._replace(bundle="t/n/y"), at_ms=at_ms, cycle=at_ms)


def taken_in(spark: SparkSession, history: Path, root: Path) -> list[BatchRow]:
    batches: list[BatchRow] = []
    ingest(spark, str(history), str(root), ONE_BY_ONE, batches.append)
    return batches


def ids(spark: SparkSession, root: Path) -> list[str]:
    """Of all rows that count."""
    return sorted(
        row["id"]
        for name in ("bundle_loads", "session_events")
        for row in open_warehouse(spark, str(root)).read(tables.HISTORY[name]).collect()
    )


@pytest.mark.slow
def test_merges_keep_each_row_wherever_they_die(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, root = tmp_path / "history", tmp_path / "tables"
    history.mkdir()
    for number in range(3):
        at_ms = DAY_ONE_MS + number * DAY_MS
        event = line(
            SESSION_EVENTS, f"b-{number}", SessionEventRow("begin", "connected", 1), at_ms=at_ms
        )
        lines: list[Any] = [loads(f"a-{number}", at_ms), "no line", event]
        write_segment(history / f"{number}.ndjson.gz", lines)
    assert len(taken_in(spark, history, root)) == 3
    every = ids(spark, root)
    assert len(every) == 9

    append = tables.append
    for until in range(4):
        writes = 0

        def cut(*arguments: Any, last: int = until) -> None:
            nonlocal writes
            writes += 1
            if writes > last:
                raise Killed
            append(*arguments)

        monkeypatch.setattr(tables, "append", cut)
        with pytest.raises(Killed):
            compact(spark, str(root), lambda *_: None)
        monkeypatch.setattr(tables, "append", append)
        assert ids(spark, root) == every

    heard: list[tuple[Merged, int]] = []
    merged = compact(spark, str(root), lambda *each: heard.append(each))
    assert merged == [Merged(3, 9, 0)]
    assert heard == [(merged[0], 1)]
    assert ids(spark, root) == every
    assert check_all(spark, str(root))["quarantine"] == 3
    assert len(list((root / "batches").glob("*.parquet"))) == 1
    assert compact(spark, str(root), lambda *_: None) == []
    # The old files are gone by now.
    assert len(list((root / "bundle_loads").rglob("batch=*"))) == 3

    # Segments that come again are known, though their batches are no more.
    shutil.rmtree(root / "_checkpoint")
    assert taken_in(spark, history, root) == []
    sink_rows = tables.read_batch_rows(spark, str(root))
    assert len(sink_rows) == 4
    assert len(tables.select_counted(sink_rows)) == 1

    assert expire(spark, str(root), DAY_TWO, lambda *_: None) == [Merged(1, 6, 3)]
    assert ids(spark, root) == [each for each in every if "-0" not in each]
    check_all(spark, str(root))
    assert expire(spark, str(root), DAY_TWO, lambda *_: None) == []
    assert expire(spark, str(root), date(2026, 2, 1), lambda *_: None) == [Merged(1, 0, 6)]
    assert ids(spark, root) == []
    assert check_all(spark, str(root))["quarantine"] == 0


@pytest.mark.slow
def test_the_verbs_merge_and_expire_what_ingest_has_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    history, root, config = (tmp_path / name for name in ("history", "tables", "pipeline.conf"))
    history.mkdir()
    # A day of now and one of 2026-01-01.
    for number, at_ms in enumerate((SystemClock().wall_ms(), DAY_ONE_MS)):
        write_segment(history / f"{number}.ndjson", [loads(f"a-{number}", at_ms)])
    config.write_text("ingestBatchBytes=1\n")

    def answer(*words: object) -> Any:
        done = CliRunner().invoke(main, ["pipeline", *map(str, words), "--output", "json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    assert answer("ingest", history, "--tables", root, "--config", config)["batches"] == 2
    assert answer("compact", root) == {"merges": 1, "batches": 2, "rows": 4, "dropped": 0}
    assert answer("compact", root)["merges"] == 0
    kept = answer("expire", root, "--older-than", 2)
    assert kept == {"merges": 1, "batches": 1, "rows": 2, "dropped": 2}
    assert ids(spark, root) == ["a-0/0", "a-0/1"]


@pytest.mark.slow
def test_an_ingest_that_repeats_merges_by_itself(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, root = tmp_path / "history", tmp_path / "tables"
    history.mkdir()
    for number in range(5):
        write_segment(history / f"{number}.ndjson", [loads(f"a-{number}", DAY_ONE_MS + number)])
    monkeypatch.setattr("broker_ctl.pipeline.ingest._MERGE_AFTER", 2)
    batches: list[BatchRow] = []

    def on_batch(batch: BatchRow) -> None:
        batches.append(batch)
        if len(batches) == 5:
            raise PipelineError("enough")

    with pytest.raises(PipelineError, match="enough"):
        ingest(spark, str(history), str(root), IngestRules(1, every_s=1.0), on_batch)
    # Two became one, and that and two more became one; the fifth came after that.
    counted = tables.select_counted(tables.read_batch_rows(spark, str(root)))
    assert sorted(row.rows for row in counted) == [2, 8]
    assert len(ids(spark, root)) == 10
    check_all(spark, str(root))


@pytest.mark.parametrize("rows", [200, 6_000, 100_000])
def test_after_a_day_of_repeated_ingests_there_are_few_batches(rows: int) -> None:
    batches: list[BatchRow] = []
    rewritten = 0
    for minute in range(1, 24 * 60 + 1):
        batches.append(batch(f"{minute:04}", rows))
        if minute % 60 == 0:
            for some in group(batches):
                merged = batch("-".join(each.batch for each in some), sum(r.rows for r in some))
                batches = [each for each in batches if each not in some] + [merged]
                rewritten += merged.rows
    assert sum(each.rows for each in batches) == rows * 24 * 60
    # As many as are full, and one that is not.
    assert len(batches) <= rows * 24 * 60 // (ROWS_A_BATCH // 2) + 1
    # A row is written again some ten times at most.
    assert rewritten <= 13 * rows * 24 * 60


def test_tables_without_history_are_not_merged(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no history was taken in"):
        merging.compact(spark, str(tmp_path / "tables"), lambda *_: None)
