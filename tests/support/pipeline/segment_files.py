"""Segments of history for tests: lines by hand, or cut out of a synthesised cluster."""

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from broker_ctl.core.history.columns import RowKind
from broker_ctl.core.history.row_kinds import Stamp, line_of, packed_line_of
from broker_ctl.pipeline.synthesis.shards import Shard, write_shard

# Thursday, 2026-01-01, 00:00 UTC.
DAY_ONE_MS = 1_767_225_600_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def line(
    kind: RowKind[Any],
    line_id: str,
    *rows: Any,
    at_ms: int = DAY_ONE_MS,
    cluster: str = "east",
    writer: str = "broker-1",
    epoch: int = 1,
    cycle: int = 1,
) -> dict[str, Any]:
    """A line as a daemon writes it."""
    stamp = Stamp(kind.name, kind.format, line_id, cluster, writer, at_ms, epoch, cycle)
    if kind.is_packed:
        return dict(packed_line_of(stamp, kind.to_columns(rows)))
    (row,) = rows
    return dict(line_of(kind, stamp, row))


def write_segment(path: Path, lines: Iterable[Mapping[str, Any] | str]) -> Path:
    """Lines, those that are text as they are; compressed if the name says so."""
    texts = (each if isinstance(each, str) else json.dumps(each) for each in lines)
    data = "".join(f"{text}\n" for text in texts).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def small_history(directory: Path, segments: int, hours: int = 1) -> dict[str, int]:
    """Write a synthesised cluster of two brokers; return the number of rows of each line id."""
    directory.mkdir(parents=True)
    scratch = directory.with_name(f"{directory.name}-whole")
    scratch.mkdir()
    write_shard(Shard(("small",), "diurnal", hours, 2, None, DAY_ONE_MS, str(scratch)))
    texts = [
        text
        for path in sorted(scratch.iterdir())
        for text in gzip.decompress(path.read_bytes()).decode().splitlines()
    ]
    size = -(-len(texts) // segments)
    for number in range(segments):
        some = texts[number * size : (number + 1) * size]
        write_segment(directory / f"small-{number:03}.ndjson.gz", some)
    return {row["id"]: rows_in(row) for row in map(json.loads, texts)}


def rows_in(row: Mapping[str, Any]) -> int:
    """How many rows a line holds."""
    return len(row["bundle"]) if row["kind"] == "bundle_loads" else 1
