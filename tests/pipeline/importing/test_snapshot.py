"""Results of queries in files, of which a history is made as of a Prometheus."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner

from broker_ctl.cli.main import main
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.importing.series import TimeSpan
from broker_ctl.pipeline.importing.snapshot import Snapshot
from tests.support.pipeline.history_files import lines, segment_paths
from tests.support.pipeline.segment_files import DAY_ONE_MS, HOUR_MS

MINUTE_MS = 60_000
BUNDLES = [f"t/n/0x{n << 30:08x}_0x{min((n + 1) << 30, 0xFFFFFFFF):08x}" for n in range(4)]
COLUMNS = ["metric", "timestamp", "value", "cluster", "broker", "bundle"]


def samples(minutes: int) -> Iterator[list[Any]]:
    """Four bundles of two brokers; a gap of ten minutes, and what is not Pulsar's."""
    for minute in range(minutes):
        if 20 <= minute < 30:
            continue
        at_s = (DAY_ONE_MS + minute * MINUTE_MS) // 1000
        for number, bundle in enumerate(BUNDLES):
            labels = ["east", f"b{number % 2}", bundle]
            yield ["pulsar_bundle_msg_throughput_in", at_s, 1000.0 * (number + 1), *labels]
            yield ["pulsar_bundle_msg_rate_in", at_s, "NaN" if minute == 5 else 1.0, *labels]
            yield ["pulsar_bundle_topics_count", at_s, 3.0, *labels]
        yield ["up", at_s, 1.0, "east", "b0", ""]
        yield ["pulsar_bundle_msg_rate_in", at_s, 7.0, "west", "b9", BUNDLES[0]]


def write_csv(path: Path, minutes: int = 120) -> Path:
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(COLUMNS)
        writer.writerows(samples(minutes))
    return path


def write_parquet(path: Path, minutes: int = 120) -> Path:
    columns = dict(zip(COLUMNS, zip(*samples(minutes), strict=True), strict=True))
    columns["value"] = tuple(map(float, columns["value"]))
    # As another tool would have it: times as such, and another name.
    times = pa.array([at_s * 1000 for at_s in columns.pop("timestamp")], pa.int64())
    table = pa.table({"time": times.cast(pa.timestamp("ms", "UTC")), **columns})
    pq.write_table(table, path)
    return path


def imported(source: Path, history: Path, *more: str) -> list[Any]:
    words = ["pipeline", "import", "prometheus", source, history, "--cluster", "east", *more]
    done = CliRunner().invoke(main, [*map(str, words), "--output", "json"])
    assert done.exit_code == 0, done.output
    return list(lines(history))


def test_csv_and_parquet_make_the_same_history(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    write_csv(tmp_path / "saved" / "a.csv")
    write_parquet(tmp_path / "b.parquet")
    found = imported(tmp_path / "saved", tmp_path / "one")
    imported(tmp_path / "b.parquet", tmp_path / "two")
    one, two = (
        {path.name: path.read_bytes() for path in segment_paths(tmp_path / name)}
        for name in ("one", "two")
    )
    assert one == two
    loads = [line for line in found if line.stamp.kind == "bundle_loads"]
    times = {line.stamp.at_ms for line in loads}
    # A sample counts for five minutes: of the gap of ten, five have nothing.
    assert len(times) == 120 - 6
    first = {
        row.bundle: row for line in loads if line.stamp.at_ms == DAY_ONE_MS for row in line.rows
    }
    assert [first[bundle].bytes_in for bundle in BUNDLES] == [1000.0, 2000.0, 3000.0, 4000.0]
    assert [first[bundle].owner for bundle in BUNDLES] == ["b0", "b1", "b0", "b1"]
    assert {row.topics for row in first.values()} == {3}


async def test_a_moment_has_the_last_sample_before_it(tmp_path: Path) -> None:
    snapshot = Snapshot(write_csv(tmp_path / "a.csv", minutes=10), "east")
    assert snapshot.ends_ms == (DAY_ONE_MS, DAY_ONE_MS + 9 * MINUTE_MS)
    span = TimeSpan(DAY_ONE_MS - MINUTE_MS, DAY_ONE_MS + HOUR_MS, 30_000)
    found = await snapshot.query("pulsar_bundle_msg_rate_in", ("broker",), span)
    assert [series.labels for series in found] == [{"broker": "b0"}, {"broker": "b1"}]
    times = [at_ms for at_ms, _ in found[0].values]
    assert (times[0], times[-1]) == (DAY_ONE_MS, DAY_ONE_MS + 14 * MINUTE_MS - 30_000)
    # Two bundles each; the sample that is not a number is none.
    assert {value for _, value in found[0].values} == {2.0}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "metric,value\npulsar_rate_in,1\n", "no column timestamp or time or ts"),
        ("a.csv", "metric,timestamp,value\npulsar_rate_in,x,1\n", "a.csv: Invalid isoformat"),
        ("a.parquet", "no Parquet", "a.parquet: "),
        ("a.txt", "", "no file with series: .csv, .csv.gz, .parquet"),
    ],
)
def test_what_is_not_a_table_of_series_is_refused(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(PipelineError, match=said):
        Snapshot(tmp_path / name, None)
