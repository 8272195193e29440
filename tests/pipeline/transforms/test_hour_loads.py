"""The load of an hour is what was carried in it, whatever was split, merged or moved."""

import random
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from broker_ctl.pipeline.reading.hourly import PARTS, HourTask, sum_hours, sum_parts
from broker_ctl.pipeline.tables import HISTORY, conform
from broker_ctl.pipeline.transforms.hours import BUNDLE_HOURS, MEASURES, bundle_hours
from tests.support.pipeline.parquet_tables import arrow, parquet
from tests.support.pipeline.segment_files import DAY_ONE_MS, HOUR_MS

LOADS = HISTORY["bundle_loads"]
MINUTE_MS = 60_000
CLUSTERS = 20
Row = dict[str, Any]
# Cluster and hour.
Place = tuple[str, int]


def carried(cluster: str, draw: random.Random) -> Iterator[list[Row]]:
    """The rows of each cycle of two hours, in which all bundles together carry what they carry."""
    points = [0, 8, 16]
    owners: dict[str, str] = {}
    epoch = 1
    for minute in range(120):
        if draw.random() < 0.1:
            points = sorted({*points, draw.randrange(1, 16)})
        if draw.random() < 0.1 and len(points) > 3:
            points.remove(draw.choice(points[1:-1]))
        if draw.random() < 0.02:
            epoch += 1
        if draw.random() < 0.1:
            # Nobody leads, or its leader could not write.
            continue
        total = draw.lognormvariate(10, 1)
        rows = []
        for low, high in pairwise(points):
            bundle = f"t/n/0x{low:08x}_0x{high:08x}"
            if draw.random() < 0.2:
                owners[bundle] = draw.choice("abc")
            part = total * (high - low) / 16 / 2
            rates = dict.fromkeys(("msg_rate_in", "msg_rate_out", "bytes_in", "bytes_out"), part)
            row = {"cluster": cluster, "bundle": bundle, "owner": owners.get(bundle), **rates}
            row |= {"at_ms": DAY_ONE_MS + minute * MINUTE_MS, "epoch": epoch, "cycle": minute}
            rows.append({**row, "usage_ratio": 2 * part / 1e4, "topics": 1})
        yield rows


def written(root: Path, cycles: dict[str, list[list[Row]]], draw: random.Random) -> list[str]:
    """Files of the table; the cycles of a cluster stand in two of them, and some in both."""
    here = [*next(iter(cycles.values()))[0][0]]
    fields: Any = to_arrow_schema(LOADS.schema)
    own = [each for each in fields if each.name in here and each.name not in LOADS.partitions]
    schema = arrow.schema(own)
    for cluster, some in cycles.items():
        files: tuple[list[Row], list[Row]] = ([], [])
        for rows in some:
            for row in rows:
                files[draw.randrange(2)].append(row)
        for number, rows in enumerate(files):
            whole = [{each.name: row.get(each.name) for each in schema} for row in rows]
            folder = root / f"dt=2026-01-01/cluster={cluster}/batch=one"
            folder.mkdir(parents=True, exist_ok=True)
            table = arrow.Table.from_pylist(whole, schema=schema)
            parquet.write_table(table, folder / f"part-{number}.parquet")
    return sorted(map(str, root.rglob("*.parquet")))


def by_hour(sums: DataFrame) -> dict[Place, dict[str, float]]:
    """All bundles of an hour together."""
    found: dict[Place, dict[str, float]] = defaultdict(lambda: dict.fromkeys(MEASURES, 0.0))
    for row in conform(bundle_hours(sums), BUNDLE_HOURS).collect():
        for name in MEASURES:
            found[row["cluster"], row["hour_ms"]][name] += row[name]
    return found


def test_the_loads_of_an_hour_add_up_to_what_was_carried(
    spark: SparkSession, tmp_path: Path
) -> None:
    draw = random.Random(7)
    cycles = {name: [*carried(name, draw)] for name in (f"c{n}" for n in range(CLUSTERS))}
    totals: dict[Place, list[float]] = defaultdict(list)
    for cluster, some in cycles.items():
        for rows in some:
            hour_ms = rows[0]["at_ms"] // HOUR_MS * HOUR_MS
            totals[cluster, hour_ms].append(sum(row["bytes_in"] + row["bytes_out"] for row in rows))
    expected = {place: sum(each) / len(each) for place, each in totals.items()}
    assert len(expected) == 2 * CLUSTERS

    files = written(tmp_path, cycles, draw)
    numbers = spark.range(0, len(files), numPartitions=2)
    ours = by_hour(sum_parts(numbers.mapInArrow(HourTask(files), PARTS)))
    # Where the files are not ours Spark adds up all of it.
    table = spark.read.option("basePath", str(tmp_path)).parquet(*files)
    for found in (ours, by_hour(sum_hours(table))):
        assert {place: each["bytes_s"] for place, each in found.items()} == pytest.approx(expected)
        for each in found.values():
            assert each["msg_rate"] == pytest.approx(each["bytes_s"])
            assert each["usage_ratio"] == pytest.approx(each["bytes_s"] / 1e4)
