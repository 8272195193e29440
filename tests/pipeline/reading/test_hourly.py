"""A worker adds up the bundle loads of a cluster on a day by the hour."""

from pathlib import Path
from typing import Any

import pytest

from broker_ctl.pipeline.reading import hourly
from broker_ctl.pipeline.reading.hourly import SUMS, HourTask
from broker_ctl.pipeline.tables import HISTORY
from tests.support.pipeline.parquet_tables import arrow, write_rows
from tests.support.pipeline.segment_files import DAY_ONE_MS, HOUR_MS

LOADS = HISTORY["bundle_loads"]


def load(minute: int, rate: float | None, bundle: str = "b") -> dict[str, Any]:
    half = None if rate is None else rate / 2
    at_ms = DAY_ONE_MS + minute * 60_000
    rates = dict.fromkeys(("msg_rate_in", "msg_rate_out", "bytes_in", "bytes_out"), half)
    topics = None if rate is None else minute
    return {"bundle": bundle, "at_ms": at_ms, "usage_ratio": 0.5, "topics": topics, **rates}


def added_up(*folders: str) -> list[Any]:
    """Batches that a task yields for one place."""
    return [*HourTask([folders])(iter([arrow.record_batch({"id": [0]})]))]


def test_hours_are_sums_of_what_was_reported(tmp_path: Path) -> None:
    rows = [load(0, 10.0), load(59, 20.0), load(30, None), load(60, 7.0), load(1, 1.0, "c")]
    # Bytes alone were reported: the hour has them, and no rate of messages.
    rows.append({**load(61, 3.0), "msg_rate_out": None})
    write_rows(tmp_path, LOADS, *rows)
    (file,) = tmp_path.rglob("*.parquet")
    (file.parent / "_SUCCESS").touch()
    (file.parent / ".part-1.parquet.tmp").write_bytes(b"unfinished")
    (found,) = added_up(str(file.parent))
    assert found.schema.names == SUMS.names
    by_key = {(row["bundle"], row["hour_ms"]): row for row in found.to_pylist()}
    assert set(by_key) == {("b", DAY_ONE_MS), ("b", DAY_ONE_MS + HOUR_MS), ("c", DAY_ONE_MS)}
    first, second = by_key["b", DAY_ONE_MS], by_key["b", DAY_ONE_MS + HOUR_MS]
    assert (first["cluster"], first["count_all"], first["topics_max"]) == ("east", 2, 59)
    assert (first["bytes_s_sum"], first["bytes_s_count"]) == (30.0, 2)
    assert (first["usage_ratio_sum"], first["usage_ratio_count"]) == (1.0, 2)
    assert (second["count_all"], second["bytes_s_sum"]) == (2, 10.0)
    assert (second["msg_rate_sum"], second["msg_rate_count"]) == (7.0, 1)


def test_batches_of_the_same_hour_are_added_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As often as there is something to add up.
    monkeypatch.setattr(hourly, "_MOST_WAITING", 0)
    for number in range(3):
        write_rows(tmp_path / str(number), LOADS, load(number, 10.0), load(number, 1.0, "c"))
    folders = sorted({str(file.parent) for file in tmp_path.rglob("*.parquet")})
    (found,) = added_up(*folders)
    by_bundle = {row["bundle"]: row for row in found.to_pylist()}
    assert found.num_rows == len(by_bundle) == 2
    assert (by_bundle["b"]["bytes_s_sum"], by_bundle["b"]["bytes_s_count"]) == (30.0, 3)
    assert (by_bundle["c"]["count_all"], by_bundle["b"]["topics_max"]) == (3, 2)
