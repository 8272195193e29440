"""A history in tables of Iceberg and Delta: as in Parquet, and with several writers at once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from broker_ctl.core.history.row_kinds import BUNDLE_LOADS
from broker_ctl.core.history.rows import BundleLoadRow
from broker_ctl.pipeline.checks import check_all
from broker_ctl.pipeline.ingest import IngestRules, ingest
from broker_ctl.pipeline.location import Location
from broker_ctl.pipeline.open_tables.tables import OpenTables
from broker_ctl.pipeline.open_tables.upkeep import compact, expire
from broker_ctl.pipeline.profile import ProfileJobRules, profile, select_results
from broker_ctl.pipeline.settings import Format
from broker_ctl.pipeline.tables import BATCHED, HISTORY, LINES, BatchRow, whole
from broker_ctl.pipeline.transforms.hours import BUNDLE_HOURS
from broker_ctl.pipeline.warehouse import open_warehouse
from tests.support.pipeline.open_formats import OPEN, rows_by_line, tables_in
from tests.support.pipeline.segment_files import (
    DAY_MS,
    DAY_ONE_MS,
    line,
    small_history,
    write_segment,
)

pytestmark = [pytest.mark.open_tables, pytest.mark.parametrize("form", OPEN)]
ONE_BY_ONE = IngestRules(batch_bytes=1)
ALL_AT_ONCE = IngestRules(batch_bytes=1 << 30)


def loads(line_id: str, at_ms: int) -> dict[str, Any]:
    row = BundleLoadRow(
        "t/n/x", "broker-1", *(1.0,) * 4, *(2,) * 4, usage_ratio=0.5, short_bytes=1.0,
        long_msg_rate=1.0,
    )  # fmt: skip
    return line(BUNDLE_LOADS, line_id, row, row._replace(bundle="t/n/y"), at_ms=at_ms, cycle=at_ms)


def taken_in(
    spark: SparkSession, history: Path, tables: str, rules: IngestRules = ALL_AT_ONCE
) -> list[BatchRow]:
    batches: list[BatchRow] = []
    ingest(spark, str(history), tables, rules, batches.append)
    return batches


def test_a_history_is_as_in_parquet(
    spark: SparkSession, tmp_path: Path, place: Path, form: Format
) -> None:
    history, parquet = tmp_path / "history", str(tmp_path / "parquet")
    expected = small_history(history, segments=3)
    write_segment(history / "faulty.ndjson", ["no line", loads("late", DAY_ONE_MS - DAY_MS)])
    (history / "torn.ndjson.gz").write_bytes(b"no gzip")
    tables = tables_in(form, place, "same")
    (batch,) = taken_in(spark, history, tables)
    assert taken_in(spark, history, parquet) == [batch]
    assert (batch.segments, batch.unreadable, batch.faulty_lines) == (5, 1, 1)
    assert check_all(spark, tables) == check_all(spark, parquet)
    assert rows_by_line(spark, tables) == Counter({**expected, "late": 2})
    for table in BATCHED:
        columns = [name for name in table.schema.names if name != "batch"]
        ours, theirs = (open_warehouse(spark, each).read(table) for each in (tables, parquet))
        assert ours.select(columns).exceptAll(theirs.select(columns)).count() == 0, table.name
    assert profiled(spark, tables, tmp_path / "a") == profiled(spark, parquet, tmp_path / "b")

    # Segments that are known are not read; lines that are known are not written.
    assert taken_in(spark, history, tables) == []
    write_segment(history / "again.ndjson", [loads("late", DAY_ONE_MS - DAY_MS)])
    (again,) = taken_in(spark, history, tables)
    assert (again.repeated_lines, again.rows) == (1, 0)
    assert rows_by_line(spark, tables) == Counter({**expected, "late": 2})


def profiled(spark: SparkSession, tables: str, to: Path) -> list[Any]:
    """The hours of bundles; the second time, no day is computed again."""
    rules = ProfileJobRules(7, 20, 10, 0.1, 0.01)
    for _ in range(2):
        profile(spark, tables, str(to), select_results([BUNDLE_HOURS.name]), rules)
    rows = whole(spark, str(to), BUNDLE_HOURS).orderBy(*BUNDLE_HOURS.key).collect()
    # Sums in another order.
    return [
        tuple(pytest.approx(x, rel=1e-9) if isinstance(x, float) else x for x in r) for r in rows
    ]


def test_a_table_of_an_earlier_release_gets_the_columns_that_it_lacks(
    spark: SparkSession, tmp_path: Path, place: Path, form: Format
) -> None:
    history, tables = tmp_path / "history", tables_in(form, place, "older")
    history.mkdir()
    write_segment(history / "one.ndjson", [loads("one", DAY_ONE_MS)])
    taken_in(spark, history, tables)
    name = OpenTables(spark, Location.of(tables)).name_of(HISTORY["bundle_loads"])
    if form is Format.DELTA:
        spark.sql(
            f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name',"
            " 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
        )
    spark.sql(f"ALTER TABLE {name} DROP COLUMN long_msg_rate")
    loaded = open_warehouse(spark, tables).read(HISTORY["bundle_loads"])
    assert {row["long_msg_rate"] for row in loaded.collect()} == {None}
    write_segment(history / "two.ndjson", [loads("two", DAY_ONE_MS + 1)])
    taken_in(spark, history, tables)
    loaded = open_warehouse(spark, tables).read(HISTORY["bundle_loads"])
    found = {(row["id"], row["long_msg_rate"]) for row in loaded.collect()}
    assert found == {("one/0", None), ("one/1", None), ("two/0", 1.0), ("two/1", 1.0)}


def test_small_files_are_merged_and_old_days_go(
    spark: SparkSession, tmp_path: Path, place: Path, form: Format
) -> None:
    history, tables = tmp_path / "history", tables_in(form, place, "many")
    history.mkdir()
    for number in range(5):
        at_ms = DAY_ONE_MS + (number // 4) * DAY_MS + number
        lines: list[Any] = [loads(f"a-{number}", at_ms), f"no line {number}"]
        write_segment(history / f"{number}.ndjson", lines)
    assert len(taken_in(spark, history, tables, ONE_BY_ONE)) == 5
    every = rows_by_line(spark, tables)
    opened = OpenTables(spark, Location.of(tables))
    heard: list[str] = []
    kept = {each.table: each for each in compact(opened, lambda each, _: heard.append(each.table))}
    assert heard == list(kept)
    # Iceberg leaves less than five files as they are.
    if form is Format.DELTA:
        assert (kept["bundle_loads"].removed, kept["bundle_loads"].added) == (4, 1)
    else:
        assert (kept["batches"].removed, kept["batches"].added) == (5, 1)
    assert rows_by_line(spark, tables) == every
    gone = {each.table: each for each in expire(opened, date(2026, 1, 2), lambda *_: None)}
    assert (gone["bundle_loads"].dropped, gone["lines"].dropped) == (8, 4)
    assert (gone["quarantine"].dropped, gone["batches"].dropped) == (4, 4)
    assert rows_by_line(spark, tables) == {"a-4": 2}
    check_all(spark, tables)
    # What daemons still keep does not come back.
    assert taken_in(spark, history, tables) == []


def test_two_ingests_at_once_lose_and_repeat_nothing(
    spark: SparkSession, tmp_path: Path, place: Path, form: Format
) -> None:
    history = tmp_path / "history"
    expected = small_history(history, segments=4)
    tables = tables_in(form, place, "shared")
    with ThreadPoolExecutor(2) as pool:
        # The same segments, in batches of other sizes.
        both = [
            pool.submit(taken_in, spark.newSession(), history, tables, rules)
            for rules in (ONE_BY_ONE, IngestRules(batch_bytes=200_000))
        ]
        assert all(each.result(timeout=900) is not None for each in both)
    assert rows_by_line(spark, tables) == Counter(expected)
    check_all(spark, tables)
    assert open_warehouse(spark, tables).read(LINES).count() == len(expected)
