"""A worker adds up the bundle loads of a cluster on a day by the hour."""

from pathlib import Path
from typing import Any

import pytest

from broker_ctl.pipeline.reading import hourly
from broker_ctl.pipeline.reading.hourly import PARTS, HourTask
from broker_ctl.pipeline.tables import HISTORY
from tests.support.pipeline.parquet_tables import arrow, write_rows
from tests.support.pipeline.segment_files import DAY_ONE_MS, HOUR_MS

LOADS = HISTORY["bundle_loads"]


def load(minute: int, rate: float | None, bundle: str = "b") -> dict[str, Any]:
    half = None if rate is None else rate / 2
    at_ms = DAY_ONE_MS + minute * 60_000
    rates = dict.fromkeys(("msg_rate_in", "msg_rate_out", "bytes_in", "bytes_out"), half)
    topics = None if rate is None else minute
    when = {"at_ms": at_ms, "epoch": 1, "cycle": minute}
    return {"bundle": bundle, **when, "usage_ratio": 0.5, "topics": topics, **rates}


def added_up(*files: Path) -> list[Any]:
    """Rows that a task yields of some files."""
    task = HourTask([*map(str, files)])
    found = [*task(iter([arrow.record_batch({"id": [*range(len(files))]})]))]
    assert all(each.schema.names == PARTS.names for each in found)
    return [row for each in found for row in each.to_pylist()]


def test_hours_are_sums_of_what_was_reported(tmp_path: Path) -> None:
    rows = [load(0, 10.0), load(59, 20.0), load(30, None), load(60, 7.0), load(1, 1.0, "c")]
    # Bytes alone were reported: the hour has them, and no rate of messages.
    rows.append({**load(61, 3.0), "msg_rate_out": None})
    write_rows(tmp_path, LOADS, *rows)
    found = added_up(*tmp_path.rglob("*.parquet"))
    by_key = {(row["bundle"], row["hour_ms"]): row for row in found if row["bundle"]}
    assert set(by_key) == {("b", DAY_ONE_MS), ("b", DAY_ONE_MS + HOUR_MS), ("c", DAY_ONE_MS)}
    # Of the cycle of minute 30 nothing was reported.
    cycles = [(row["hour_ms"], row["cycle"]) for row in found if row["bundle"] is None]
    assert sorted(cycles) == [
        *((DAY_ONE_MS, minute) for minute in (0, 1, 59)),
        *((DAY_ONE_MS + HOUR_MS, minute) for minute in (60, 61)),
    ]
    first, second = by_key["b", DAY_ONE_MS], by_key["b", DAY_ONE_MS + HOUR_MS]
    assert (first["cluster"], first["count_all"], first["topics_max"]) == ("east", 2, 59)
    assert (first["bytes_s_sum"], first["usage_ratio_sum"]) == (30.0, 1.0)
    assert (second["count_all"], second["bytes_s_sum"]) == (2, 10.0)
    assert second["msg_rate_sum"] == 7.0


def test_batches_of_the_same_hour_are_added_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As often as there is something to add up.
    monkeypatch.setattr(hourly, "_MOST_WAITING", 0)
    monkeypatch.setattr(hourly, "_ROWS_AT_ONCE", 2)
    some = (load(number, rate, name) for number in range(3) for rate, name in ((10, "b"), (1, "c")))
    write_rows(tmp_path, LOADS, *some)
    found = added_up(*tmp_path.rglob("*.parquet"))
    by_bundle = {row["bundle"]: row for row in found if row["bundle"]}
    assert len(found) == len(by_bundle) + 3 == 5
    assert (by_bundle["b"]["bytes_s_sum"], by_bundle["b"]["count_all"]) == (30.0, 3)
    assert (by_bundle["c"]["count_all"], by_bundle["b"]["topics_max"]) == (3, 2)
